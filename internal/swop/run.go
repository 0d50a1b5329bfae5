package swop

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// endTimeout bounds how long a host that is stopped ends what it runs.
const endTimeout = 45 * time.Second

// Config is what a host works with.
type Config struct {
	Place

	Name       string
	StateDir   string         // keeps the journal of assignments
	API        *client.Client // that has registered the host
	Source     identity.Source
	Domains    identity.Domains
	SwarmID    func() string
	Taskrunner string                           // whose tasks the host takes
	Peers      uint32                           // that the host is in a RUN_SWARM task
	Policy     *policy.Policy                   // of the host's owner
	Types      func(Given) map[string]work.Type // how tasks are carried out, by their type
	OwnLog     logs.Source                      // the host's own log; nil: none is kept
	Files      *FileServer
	Bans       Bans
	Health     *health.Monitor
	Log        *slog.Logger
}

// Run carries out what the swarm agrees on until ctx ends. Then it ends all that it runs: a host that is stopped runs nothing for others.
func Run(ctx context.Context, cfg Config) error {
	journal, err := consent.OpenJournal(cfg.StateDir, cfg.Log)
	if err != nil {
		return err
	}
	defer journal.Close()
	view := NewView()
	owner := Owner{Policy: cfg.Policy, SwarmID: cfg.SwarmID, Place: cfg.Place, Recent: &hostpaths.Recent{Of: cfg.Paths}, Earlier: earlierOn(view, journal.Received)}
	tasks := Tasks{Get: client.Tasks{By: client.Operator{Client: cfg.API}}.GetTask}
	lines, types := &Lines{Log: cfg.Log}, map[string]work.Type{}
	left, err := leftOf(cfg)
	if err != nil {
		return err
	}
	given := owner.givenTo(tasks, func(assignment string) string {
		e, _ := journal.Find(assignment)
		return e.By
	})
	given.Left, given.Copies = left, copiesOf(cfg, left)
	executors := cfg.Types(given)
	kept := &Kept{Dir: filepath.Join(cfg.StateDir, "logs"), Log: cfg.Log}
	for name, t := range executors {
		types[name] = lines.Of(kept.Of(t))
	}
	guard := consent.New(consent.Config{
		Verifier: consent.Verifier{Source: cfg.Source, Domains: cfg.Domains, Node: cfg.Name, Taskrunner: cfg.Taskrunner, Peers: cfg.Peers}, SwarmID: cfg.SwarmID,
		Policy: owner, Image: Images(types), Journal: journal, Log: cfg.Log,
	})
	given.Copies.Stays = staying(view, tasks, Guard{guard, owner})
	swarm := client.Host{Client: cfg.API}
	host := work.New(work.Config{
		SwarmID: cfg.SwarmID(), Node: cfg.Name, Swarm: view, Tasks: tasks, Guard: Guard{guard, owner}, Types: types, World: swarm.World, Log: cfg.Log,
	})
	shows := Logs{Node: cfg.Name, SwarmID: cfg.SwarmID, Own: cfg.OwnLog, View: view, Types: executors, Kept: kept, Left: left}
	printed := logs.NewHost(logs.Config{
		Verifier: logs.Verifier{Source: cfg.Source, Domains: cfg.Domains, Node: cfg.Name, SwarmID: cfg.SwarmID}, Allow: cfg.Policy.LogsTo, Rights: Rights{swarm}.Deny,
		Logs: shows, Send: cfg.API.SendLogs, Log: cfg.Log,
	})
	cfg.Files.handOut(printed, cfg)
	cfg.Files.forwardTo(Forwards{Node: cfg.Name, SwarmID: cfg.SwarmID, View: view, Host: host, Types: executors}, swarm, cfg)
	beats := &Beats{API: swarm, Host: host, Health: cfg.Health, Bans: cfg.Bans, Logs: printed.Take, Log: cfg.Log}
	parts, work := errgroup.WithContext(ctx)
	parts.Go(func() error {
		return swarm.WatchAssignments(work, func(all []task.Hosted) error {
			view.Take(all)
			return nil
		})
	})
	parts.Go(func() error { return beats.Run(work) })
	parts.Go(func() error { return printed.Run(work) })
	parts.Go(func() error { return sweepLeft(work, shows, cfg.Log) })
	parts.Go(func() error { return host.Run(work) })
	cfg.Health.Ready()
	lines.Ready()
	err = parts.Wait()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := End(ending, types, cfg.SwarmID(), cfg.Name); err != nil {
		cfg.Log.Warn("could not end all that runs here of tasks; the next start of this node does", "err", err)
	} else if err := guard.EndedAll("this host was stopped"); err != nil { // what the journal has as begun may go on unasked
		cfg.Log.Warn("could not keep that what ran here of tasks has ended", "err", err)
	}
	return err
}
