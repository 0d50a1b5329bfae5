// Package tasktypes makes what carries out tasks on a SWOP's host, by its options: an executor for each type.
package tasktypes

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
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
	"github.com/swarmd/swarmd/internal/work/gpus"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/image"
	"github.com/swarmd/swarmd/internal/work/ownimage"
	"github.com/swarmd/swarmd/internal/work/runjob"
	"github.com/swarmd/swarmd/internal/work/runswarm"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// Config is what tasks are carried out with.
type Config struct {
	Options  *start.SWOP
	Getenv   func(string) string // of this process
	Name     string              // of the node
	StateDir string
	Profile  *taskfile.Profile
	SNs      []string
	Own      *ownimage.Image
	Paths    hostpaths.Resolver
	Swarmd   string // path of this program, which SLs run
	Dir      string // absolute, of tasks that are processes
	Process  bool   // tasks are processes, and there is no engine
	Secrets  secret.Dir
	Log      *slog.Logger
}

// All is how tasks are carried out, by their type.
func (t *Config) All(given swop.Given) map[string]work.Type {
	puller := &image.Puller{Open: t.open, UsrDir: t.Options.UsrDir, Own: []string{t.Options.Container.Image}, Log: t.Log}
	limit := time.Duration(t.Options.PrepareTimeout.Or(start.DefaultPrepare))
	types := map[string]work.Type{
		task.PullImage: {Executor: puller, Image: puller.Image, Repeats: true}, task.RunSwarm: t.inContainers(given),
		task.RunJob: t.jobsInContainers(given), task.MakeUserContainer: t.builds(given, puller), task.MakeSwarmUserContent: t.content(given),
	}
	if t.Process {
		types[task.RunSwarm] = t.asProcesses(given)
		types[task.RunJob] = t.jobs(given)
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

func (t *Config) open(ctx context.Context) (*engine.Engine, error) {
	return engine.OpenAt(ctx, t.getenv("DOCKER_HOST"))
}

// getenv is of this process, with what the options say of the engine.
func (t *Config) getenv(name string) string { return t.Options.Getenv(t.Getenv)(name) }

func (t *Config) inContainers(given swop.Given) work.Type {
	lent := t.Options.Node
	if !MakesTokens(&lent) { // nor can the SLs: they ask the SWOP's agent, which attests processes of containers too
		lent = t.lent()
	}
	r := &containers.Runner{
		Own: t.Own, Paths: t.Paths, Terms: given.Terms, Profile: t.Profile, Node: t.Name, Host: lent, SNs: t.SNs, Tasks: given.Tasks, Open: t.open,
		SessionTimeout: t.Options.SessionTimeout.Or(start.DefaultSession), Env: start.Env{Getenv: t.getenv, Version: version.Read().Version}, Keep: t.Options.Keep, Log: t.Log,
	}
	return work.Type{Executor: r, Image: r.Image}
}

// lent are the SWOP's options with its own agent, if it has one, as the source of SLs' identities.
func (t *Config) lent() start.Node {
	n := t.Options.Node
	if socket := n.AgentSocket(t.Getenv, t.StateDir); socket != "" {
		n.SocketPath, n.Agent, n.Invitation = socket, nil, nil
	}
	return n
}

func (t *Config) asProcesses(given swop.Given) work.Type {
	return work.Type{Executor: &runswarm.Processes{
		Host:    runswarm.Host{Profile: t.Profile, Name: t.Name, Node: t.lent(), SNs: t.SNs, SessionTimeout: t.Options.SessionTimeout.Or(start.DefaultSession)},
		SwarmID: given.SwarmID, Dir: t.Dir, Swarmd: t.Swarmd, Scope: engine.Scope(t.Getenv), Getenv: t.Getenv, Paths: t.Paths, Log: t.Log,
	}}
}

func (t *Config) jobs(given swop.Given) work.Type {
	p := &runjob.Processes{
		SwarmID: given.SwarmID, Node: t.Name, Dir: filepath.Join(t.Dir, "jobs"), Swarmd: t.Swarmd, Scope: engine.Scope(t.Getenv), Getenv: t.Getenv, Lookup: lookup, Paths: t.Paths,
		Goods: runjob.Goods{Secrets: t.Secrets, Left: given.Left, Copies: given.Copies}, GPUs: gpus.Pool{Names: gpus.Seen(os.LookupEnv)}, Log: t.Log,
	}
	return work.Type{World: true, CleanLimit: runjob.CleanLimit, Executor: p, Lease: p.Lease}
}

func (t *Config) jobsInContainers(given swop.Given) work.Type {
	w := &runjob.Watch{Dir: filepath.Join(t.Dir, "jobs"), Swarmd: t.Swarmd, Engine: t.getenv("DOCKER_HOST"), Node: t.Name, Scope: engine.Scope(t.getenv), Log: t.Log}
	c := &runjob.Containers{Node: t.Name, Scope: engine.Scope(t.getenv), Open: t.open, Lookup: lookup, Paths: t.Paths, Limits: given.Terms.Limits, Goods: runjob.Goods{Secrets: t.Secrets, Left: given.Left, Copies: given.Copies}, GPUs: gpus.Pool{Names: gpus.Seen(os.LookupEnv)}, Watch: w, Log: t.Log}
	address := func(ctx context.Context, l work.Label) (string, error) { return runjob.AddressOf(ctx, c, l) }
	return work.Type{World: true, CleanLimit: runjob.CleanLimit, Executor: c, Image: c.Image, Address: address, Lease: w.Lease}
}

// lookup finds the addresses of a host by this one's resolver.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

func (t *Config) builds(given swop.Given, images *image.Puller) work.Type {
	return work.Type{Repeats: true, Executor: build.New(build.Config{
		Open: t.open, Node: t.Name, Scope: engine.Scope(t.getenv), Proxies: t.Profile.Proxies(), Terms: given.Terms, Fetches: given.Fetches, Images: images, Log: t.Log,
	})}
}

func (t *Config) content(given swop.Given) work.Type {
	return work.Type{Repeats: true, Executor: content.New(content.Config{
		Open: t.open, Node: t.Name, Scope: engine.Scope(t.getenv), Dir: filepath.Join(t.StateDir, "content"), Nodes: t.Profile.Indexes(), Proxies: t.Profile.Proxies(),
		Terms: given.Terms, Log: t.Log,
	})}
}

// withoutEngine is how a host that runs tasks as processes meets those that need an engine.
func withoutEngine(taskType string) work.Type {
	return work.Type{Refuses: fmt.Sprintf("this host runs tasks as processes, and carries out %s only with a container engine: start it with --ml-runtime docker", taskType)}
}

// MakesTokens reports whether the SLs of a SWOP get what the SWOP itself has its identity from: another agent's socket, or tokens that a SPIRE
// server makes as often as it is asked.
func MakesTokens(o *start.Node) bool {
	return len(o.Agent) == 0 && o.Invitation == nil || o.Agent["gen-join-token"] == "true"
}
