package component

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	joinFile = "spire-join.json" // in the state directory
	// keptFile is where an agent of ours keeps what it needs to go on without a token.
	keptFile    = "spire-agent/data/agent-data.json"
	maxKept     = 1 << 20
	serverPause = time.Second // between looks whether the SPIRE server's container runs
)

// findServer fills in what the user has left open about the SPIRE server: its container on this host, if it has one, and the
// address under which the component reaches it.
func (l *launcher) findServer(ctx context.Context) error {
	agent := l.spec.Agent
	if agent == nil {
		return nil
	}
	address, err := agent.Server()
	if err != nil {
		return err
	}
	named := ""
	if agent.GenJoinToken != nil {
		named = agent.GenJoinToken.Docker
	}
	found, err := l.server(ctx, named, address == "")
	if err != nil && address == "" {
		return err
	}
	own := *agent
	if agent.GenJoinToken != nil {
		source := *agent.GenJoinToken
		source.ServerAddress, source.Exec, source.Log = address, ExecIn(l.engine), l.log
		if found != nil && named == "" {
			source.Docker = strings.TrimPrefix(found.Name, "/")
		}
		source.FindDocker = l.serverName // one that starts later
		own.GenJoinToken = &source
	}
	l.spec.Agent = &own
	if address == "" {
		if own.ServerAddress, err = l.addressOf(found); err != nil {
			return err
		}
	}
	l.tellAgent(agent)
	return nil
}

// serverName is the name of the only SPIRE server's container of this scope that runs, "" without one.
func (l *launcher) serverName(ctx context.Context) (string, error) {
	found, err := l.lookForServer(ctx, "")
	if err != nil || found == nil {
		return "", err
	}
	return strings.TrimPrefix(found.Name, "/"), nil
}

// addressOf is how the component reaches the server's container; nil stands for none.
func (l *launcher) addressOf(found *container.InspectResponse) (string, error) {
	if found == nil {
		return "", errors.New("-serverAddress is missing: give the SPIRE server's address; no container of a SPIRE server runs on this host")
	}
	address, err := addressOf(found, l.spec.Network)
	if err == nil {
		l.log.Info("SPIRE server found", "container", strings.TrimPrefix(found.Name, "/"), "address", address)
	}
	return address, err
}

// tellAgent passes on what was found out beyond what the user said, given; to SWCI all of it.
func (l *launcher) tellAgent(given *spire.AgentConfig) {
	s, agent := &l.spec, l.spec.Agent
	file := path.Join(s.stateDir(), joinFile)
	if s.Role != naming.RoleSWCI {
		var vars []string
		if agent.GenJoinToken != nil {
			vars = append(vars, "SWARM_JOIN_FILE="+file)
		}
		if agent.ServerAddress != given.ServerAddress {
			vars = append(vars, "SWARM_SPIRE_SERVER_ADDRESS="+agent.ServerAddress)
		}
		s.Vars = append(vars, s.Vars...)
		return
	}
	args, files := agentArgs(agent)
	if agent.JoinToken != "" {
		s.Vars = append([]string{spire.AgentVariable("joinToken") + "=" + agent.JoinToken}, s.Vars...)
	}
	if agent.GenJoinToken != nil {
		args = append(args, "-gen-join-token", "-join-file="+file)
	}
	s.Args, s.Files = slices.Concat(s.Args, args), slices.Concat(s.Files, files)
}

// agentArgs are the options of an agent as a command of ours takes them, but for its join token, which every user of the host could
// read there, and the files that they name.
func agentArgs(cfg *spire.AgentConfig) (args, files []string) {
	for _, o := range [][2]string{
		{"serverAddress", cfg.ServerAddress}, {"trustDomain", cfg.TrustDomain}, {"config", cfg.ConfigFile},
	} {
		if o[1] != "" {
			args = append(args, "-"+o[0]+"="+o[1])
		}
	}
	if cfg.ServerPort != 0 {
		args = append(args, fmt.Sprintf("-serverPort=%d", cfg.ServerPort))
	}
	args = append(args, cfg.Args...)
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if name != "-config" && name != "-trustBundle" {
			continue
		}
		if abs, err := filepath.Abs(value); err == nil {
			value = abs
		}
		args[i], files = name+"="+value, append(files, value)
	}
	return args, files
}

// server finds the SPIRE server's container: the named one, or the only one of this scope that runs; nil without any. If its
// address is needed it is waited for, since server and nodes may have been started together.
func (l *launcher) server(ctx context.Context, named string, needed bool) (*container.InspectResponse, error) {
	limit := time.Now()
	if needed && l.spec.Agent.GenJoinToken != nil {
		limit = limit.Add(l.spec.Agent.GenJoinToken.Wait)
	}
	for said := false; ; said = true {
		found, err := l.lookForServer(ctx, named)
		if err != nil || found != nil {
			return found, err
		}
		if time.Now().After(limit) {
			return nil, nil // its address may be all that is needed, and what is missing is said where it is
		}
		if !said {
			l.log.Warn("waiting for the SPIRE server's container", "name", named, "for", time.Until(limit).Round(time.Second).String())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(serverPause):
		}
	}
}

func (l *launcher) lookForServer(ctx context.Context, named string) (*container.InspectResponse, error) {
	if named == "" {
		found, err := l.engine.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(
			filters.Arg("label", engine.LabelRole+"="+engine.RoleSpireServer), filters.Arg("label", engine.LabelScope+"="+l.spec.Scope),
		)})
		if err != nil {
			return nil, engine.Explain(fmt.Errorf("look for the SPIRE server's container: %w", err))
		}
		if found, err = l.own(ctx, found); err != nil {
			return nil, err
		}
		switch len(found) {
		case 0:
			return nil, nil
		case 1:
			named = found[0].ID
		default:
			return nil, errors.New("several containers of SPIRE servers run on this host: name one with --spire-docker-name")
		}
	}
	c, err := l.engine.ContainerInspect(ctx, named)
	switch {
	case errdefs.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, engine.Explain(fmt.Errorf("look at the SPIRE server's container: %w", err))
	case c.State == nil || !c.State.Running:
		return nil, nil
	}
	return &c, nil
}

// own are those of the containers that swarmd has made. A node trusts the server whose token it gets.
func (l *launcher) own(ctx context.Context, found []container.Summary) (own []container.Summary, err error) {
	for _, c := range found {
		inherited, err := l.engine.Inherited(ctx, c.Labels, c.ImageID)
		if err != nil {
			return nil, err
		}
		if !inherited {
			own = append(own, c)
		}
	}
	return own, nil
}

// addressOf is how a container on a network ("": the engine's default) reaches the server: by name where the engine has a
// DNS, which is on networks of the user's own, else by address.
func addressOf(server *container.InspectResponse, network string) (string, error) {
	name := strings.TrimPrefix(server.Name, "/")
	if server.NetworkSettings == nil {
		return "", fmt.Errorf("container %s has no network: give -serverAddress", name)
	}
	networks := server.NetworkSettings.Networks
	if network == "host" {
		if _, both := networks["host"]; both {
			return "127.0.0.1", nil
		}
		for _, n := range networks { // the host reaches every bridge
			if n.IPAddress != "" {
				return n.IPAddress, nil
			}
		}
	}
	for _, standard := range []string{"", "default", "bridge", "podman"} {
		if network != standard {
			continue
		}
		for _, n := range []string{"bridge", "podman"} {
			if e := networks[n]; e != nil && e.IPAddress != "" {
				return e.IPAddress, nil
			}
		}
	}
	if _, shared := networks[network]; shared {
		return name, nil
	}
	return "", &engine.Error{
		Err:  fmt.Errorf("SPIRE server %s is not on the network of this component", name),
		Help: "give both the same --network, or name the server's address with -serverAddress",
	}
}

// fill puts into a container that has not started what it finds at its start: its state directory, which must belong to
// its user, and its join token.
func (l *launcher) fill(ctx context.Context) error {
	dir := l.spec.stateDir()
	to, prefix := dir, ""
	uid, gid, known := ids(l.plan.user)
	var files []tar.Header
	var contents [][]byte
	if l.spec.StateDir == "" && !l.spec.Stateless {
		to, prefix = engine.StateHome, path.Base(dir)+"/"
		if known {
			files, contents = append(files, tar.Header{Typeflag: tar.TypeDir, Name: prefix, Mode: 0o700}), append(contents, nil)
		}
	}
	join, err := l.join(ctx, dir)
	if err != nil {
		return err
	}
	if join != nil {
		mode := int64(0o600)
		if !known {
			mode = 0o644 // only the host's root and the container reach the volume
		}
		files, contents = append(files, tar.Header{Typeflag: tar.TypeReg, Name: prefix + joinFile, Mode: mode, Size: int64(len(join))}), append(contents, join)
	}
	if len(files) == 0 {
		return nil
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i, f := range files {
		f.Uid, f.Gid, f.ModTime = uid, gid, time.Now()
		if err := w.WriteHeader(&f); err != nil {
			return fmt.Errorf("fill container of %s: %w", l.what(), err)
		}
		if _, err := w.Write(contents[i]); err != nil {
			return fmt.Errorf("fill container of %s: %w", l.what(), err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("fill container of %s: %w", l.what(), err)
	}
	if err := l.engine.CopyToContainer(ctx, l.id, to, &archive, container.CopyToContainerOptions{}); err != nil {
		return engine.Explain(fmt.Errorf("fill container of %s: %w", l.what(), err))
	}
	return nil
}

// join has a token made for the component's agent, unless it has kept what it needs from a previous run. Nil: none is
// needed.
func (l *launcher) join(ctx context.Context, dir string) ([]byte, error) {
	agent := l.spec.Agent
	if agent == nil || agent.GenJoinToken == nil {
		return nil, nil
	}
	if kept, err := l.read(ctx, path.Join(dir, keptFile)); err == nil && spire.HasUsableData(kept) {
		return nil, nil
	}
	join, err := agent.GenJoinToken.Join(ctx, identity.Role(l.spec.Role), agent.NodeName)
	if err != nil {
		return nil, err
	}
	l.log.Info("join token made", "by", join.Origin, "trust_domain", join.TrustDomain, "agent", join.Agent)
	return json.Marshal(join)
}

// read returns a file of the container.
func (l *launcher) read(ctx context.Context, name string) ([]byte, error) {
	r, _, err := l.engine.CopyFromContainer(ctx, l.id, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	archive := tar.NewReader(r)
	h, err := archive.Next()
	if err != nil {
		return nil, err
	}
	if h.Size > maxKept {
		return nil, errors.New("too big")
	}
	return io.ReadAll(io.LimitReader(archive, maxKept))
}
