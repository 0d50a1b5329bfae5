package start

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
)

// ownVariable tells a SWOP in a container which paths of its host are its own, as joinPaths writes them; hostUsrVariable is where its --usr-dir is there.
const (
	ownVariable     = "SWARM_HOST_OWN"
	hostUsrVariable = "SWARM_HOST_USR_DIR"
)

// Own are the paths of the host with which a program could speak for the SWOP, change what it is told, or have its engine: no task is given
// them. read are files that this process has read its orders from, and stateDir is where it keeps its state.
func (o *SWOP) Own(getenv func(string) string, stateDir string, read ...string) (all []string) {
	all = []string{o.Key, o.Cert, o.CACert, o.CAPath}
	if usr := getenv(hostUsrVariable); usr != "" { // by the launcher; what is mounted has the same path here
		for _, file := range read {
			if rel, err := filepath.Rel(SWOPUserDir, file); err == nil && filepath.IsLocal(rel) {
				file = filepath.Join(usr, rel)
			}
			all = append(all, file)
		}
		all = append(all, splitPaths(getenv(ownVariable))...)
	} else {
		all = slices.Concat(all, read, o.onHost(getenv, stateDir), o.agentPaths(getenv))
	}
	return absolute(all)
}

// onHost are those that a SWOP's container has elsewhere than its host.
func (o *SWOP) onHost(getenv func(string) string, stateDir string) []string {
	all := []string{stateDir, o.SecretsDir}
	if at, err := o.Socket(getenv, naming.RoleSWOP); err == nil {
		if o.Embedded() {
			at = filepath.Dir(at) // the authority's, with its keys and the sockets of all roles
		}
		all = append(all, at)
	}
	if socket, local := strings.CutPrefix(cmp.Or(o.Getenv(getenv)("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://"); local {
		all = append(all, socket)
	}
	return absolute(all)
}

// agentPaths are those of an agent of the SWOP's own that the user has put elsewhere than in its directory. A container has them inside. What
// is wrong with the agent's options others say.
func (o *SWOP) agentPaths(getenv func(string) string) []string {
	agent, err := o.AgentConfig(getenv)
	if err != nil || agent == nil {
		return nil
	}
	all, _ := agent.Paths()
	return all
}

// joinPaths makes one text of paths: a colon ends each but the last, and has a backslash before it where it is a path's own.
func joinPaths(paths []string) string {
	escaped := make([]string, len(paths))
	for i, p := range paths {
		escaped[i] = strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(p)
	}
	return strings.Join(escaped, ":")
}

// splitPaths is joinPaths's opposite.
func splitPaths(list string) (paths []string) {
	var path strings.Builder
	for i := 0; i < len(list); i++ {
		switch {
		case list[i] == ':':
			paths = append(paths, path.String())
			path.Reset()
			continue
		case list[i] == '\\' && i+1 < len(list):
			i++
		}
		path.WriteByte(list[i])
	}
	return append(paths, path.String())
}

// absolute are paths as they are from the root, each once.
func absolute(paths []string) (all []string) {
	for _, p := range paths {
		if at, err := abs(p); err == nil && at != "" && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}
