package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/version"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/build"
	"github.com/swarmd/swarmd/internal/work/containers"
	"github.com/swarmd/swarmd/internal/work/content"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/image"
	"github.com/swarmd/swarmd/internal/work/ownimage"
	"github.com/swarmd/swarmd/internal/work/runswarm"
	"github.com/swarmd/swarmd/node"
)

// taskTypes makes what carries out tasks on a SWOP's host, by its options.
type taskTypes struct {
	o       *start.SWOP
	env     Env
	base    node.Common
	profile *taskfile.Profile
	sns     []string
	own     *ownimage.Image
	paths   hostpaths.Resolver
	swarmd  string // path of this program, which SLs run
	dir     string // absolute, of SLs that are processes
	process bool   // RUN_SWARM starts processes, and there is no engine
}

// all is how tasks are carried out, by their type.
func (t *taskTypes) all(given swop.Given) map[string]work.Type {
	puller := &image.Puller{Open: t.open, UsrDir: t.o.UsrDir, Own: []string{t.o.Container.Image}, Log: t.base.Log}
	limit := time.Duration(t.o.PrepareTimeout.Or(start.DefaultPrepare))
	types := map[string]work.Type{
		task.PullImage: {Executor: puller, Image: puller.Image, Repeats: true}, task.RunSwarm: t.inContainers(given),
		task.MakeUserContainer: t.builds(given, puller), task.MakeSwarmUserContent: t.content(given),
	}
	if t.process {
		types[task.RunSwarm] = t.asProcesses(given)
		for _, name := range []string{task.MakeUserContainer, task.MakeSwarmUserContent} {
			types[name] = withoutEngine(name)
		}
	}
	for name, x := range types {
		x.Limit = limit
		types[name] = x
	}
	return types
}

func (t *taskTypes) open(ctx context.Context) (*engine.Engine, error) {
	return engine.OpenAt(ctx, t.getenv("DOCKER_HOST"))
}

func (t *taskTypes) getenv(name string) string { return t.o.Getenv(t.env.Getenv)(name) }

func (t *taskTypes) inContainers(given swop.Given) work.Type {
	lent := t.o.Node
	if !makesTokens(&lent) { // nor can the SLs: they ask the SWOP's agent, which attests processes of containers too
		lent = t.lent()
	}
	r := &containers.Runner{
		Own: t.own, Paths: t.paths, Terms: given.Terms, Profile: t.profile, Node: t.base.Name, Host: lent, SNs: t.sns, Tasks: given.Tasks, Open: t.open,
		SessionTimeout: t.o.SessionTimeout.Or(start.DefaultSession), Env: start.Env{Getenv: t.getenv, Version: version.Read().Version}, Keep: t.o.Keep, Log: t.base.Log,
	}
	return work.Type{Executor: r, Image: r.Image}
}

// lent are the SWOP's options with its own agent, if it has one, as the source of SLs' identities.
func (t *taskTypes) lent() start.Node {
	n := t.o.Node
	if socket := n.AgentSocket(t.env.Getenv, t.base.StateDir); socket != "" {
		n.SocketPath, n.Agent, n.Invitation = socket, nil, nil
	}
	return n
}

func (t *taskTypes) asProcesses(given swop.Given) work.Type {
	return work.Type{Executor: &runswarm.Processes{
		Host:    runswarm.Host{Profile: t.profile, Name: t.base.Name, Node: t.lent(), SNs: t.sns, SessionTimeout: t.o.SessionTimeout.Or(start.DefaultSession)},
		SwarmID: given.SwarmID, Dir: t.dir, Swarmd: t.swarmd, Scope: engine.Scope(t.env.Getenv), Getenv: t.env.Getenv, Paths: t.paths, Log: t.base.Log,
	}}
}

func (t *taskTypes) builds(given swop.Given, images *image.Puller) work.Type {
	return work.Type{Repeats: true, Executor: build.New(build.Config{
		Open: t.open, Node: t.base.Name, Scope: engine.Scope(t.getenv), Proxies: t.profile.Proxies(), Terms: given.Terms, Fetches: given.Fetches, Images: images, Log: t.base.Log,
	})}
}

func (t *taskTypes) content(given swop.Given) work.Type {
	return work.Type{Repeats: true, Executor: content.New(content.Config{
		Open: t.open, Node: t.base.Name, Scope: engine.Scope(t.getenv), Dir: filepath.Join(t.base.StateDir, "content"), Nodes: t.profile.Indexes(), Proxies: t.profile.Proxies(),
		Terms: given.Terms, Log: t.base.Log,
	})}
}

// withoutEngine is how a host that runs tasks as processes meets those that need an engine.
func withoutEngine(taskType string) work.Type {
	return work.Type{Refuses: fmt.Sprintf("this host runs tasks as processes, and carries out %s only with a container engine: start it with --ml-runtime docker", taskType)}
}
