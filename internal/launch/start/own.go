package start

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// ownVariable tells a SWOP in a container which paths of its host are its own; hostUsrVariable is where its --usr-dir is there.
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
		all = append(all, filepath.SplitList(getenv(ownVariable))...)
	} else {
		all = append(append(all, read...), o.onHost(getenv, stateDir)...)
	}
	return absolute(all)
}

// onHost are those that a SWOP's container has elsewhere than its host.
func (o *SWOP) onHost(getenv func(string) string, stateDir string) []string {
	authority, embedded := strings.CutPrefix(o.Identity, "embedded=")
	if !embedded {
		authority = ""
	}
	all := []string{stateDir, authority, strings.TrimPrefix(cmp.Or(o.SocketPath, getenv("SPIFFE_ENDPOINT_SOCKET")), "unix://")}
	if socket, local := strings.CutPrefix(cmp.Or(o.Getenv(getenv)("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://"); local {
		all = append(all, socket)
	}
	return absolute(all)
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
