package runner

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// journalName is the file in the state directory that a program's container is adopted by.
	journalName = "session.json"
	// previousTimeout bounds the removal of a previous run's programs when the node is stopped. They have ten seconds of grace.
	previousTimeout = 20 * time.Second
	// reconnect is how long a program in a container waits for its daemon to return, in seconds.
	reconnect = "600"
	// staleSocket is what to do when the engine has made its socket anew, of which this container has the old one for ever.
	staleSocket = "the engine was started anew with a new socket, which this container gets when it is started again: docker kill and docker start it; the program is adopted"
	// maxIsolation is what the swarm takes of a text about isolation, in bytes.
	maxIsolation = 256
)

// containers runs an SL's program in a container, which outlives the daemon.
type containers struct {
	cfg         Config
	spec        container.Spec
	launcher    Containers
	checked     bool
	original    bool // the program has the original's client
	journal     *session.Journal
	logPosition logPosition      // up to where its output was taken
	found       *container.Found // the program of a previous run; nil: a new one is started
	others      []container.Found
	done        bool   // a rank 0 of a previous run, one of others, has ended well with its final model; that is not noted yet
	kept        bool   // what the previous run's program used may be needed
	lost        bool   // the program of a previous run is gone, and nobody saw how
	rebuilt     string // the isolation of one that is not adopted, as another is wanted now
}

// prepareContainer checks everything about the program that can be checked before anything is started. The caller closes it.
func prepareContainer(ctx context.Context, cfg Config) (*containers, error) {
	spec, err := mlSpec(cfg)
	if err != nil {
		return nil, err
	}
	open := cfg.Containers
	if open == nil {
		open = openEngine
	}
	launcher, err := open(ctx, cfg.Log)
	if err != nil {
		return nil, err
	}
	c := &containers{cfg: cfg, spec: spec, launcher: launcher}
	if err := c.owner().Check(); err != nil {
		c.close()
		return nil, err
	}
	// What runs already was checked, and what is over needs nothing. Nothing is touched before the state directory is locked.
	c.journal = session.OpenJournal(c.journalPath(), slog.New(slog.DiscardHandler))
	c.logPosition = logPosition{path: filepath.Join(cfg.StateDir, logPositionName), log: cfg.Log}
	saved, err := c.find(ctx)
	c.kept = c.found != nil || saved != nil
	if err == nil && c.found == nil && saved == nil {
		err = c.check(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *containers) close() { _ = c.launcher.Close() } // idle connections

func (c *containers) journalPath() string { return filepath.Join(c.cfg.StateDir, journalName) }

// mlSpec is the configured container with what it leaves to the node.
func mlSpec(cfg Config) (container.Spec, error) {
	s := *cfg.ML
	for _, f := range []struct {
		field *string
		value string
	}{
		{&s.Node, cfg.Node},
		{&s.Platform, cfg.Platform},
		{&s.Program, cfg.Program},
		{&s.BridgeDir, cfg.BridgeDir},
		{&s.Client, cfg.Client},
	} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	for _, f := range []struct {
		field *string
		value string
	}{{&s.DataDir, cfg.DataDir}, {&s.ModelDir, cfg.ModelDir}, {&s.Spill, cfg.SpillDir}} {
		if *f.field != "" || f.value == "" {
			continue
		}
		abs, err := filepath.Abs(f.value)
		if err != nil {
			return s, err
		}
		*f.field = abs
	}
	if s.Args == nil {
		s.Args = cfg.Args
	}
	if s.LogFile == "" && cfg.ModelDir != "" && s.Program != "" {
		s.LogFile = launch.LogFile(cfg.ModelDir, s.Program)
	}
	s.Env = append(append([]string{}, s.Env...), "SWARM_PEER="+cfg.Node)
	if cfg.Ranks == nil { // ranks end with their daemon, and are started together by the next one
		s.Env = append(s.Env, "SWARM_RECONNECT="+reconnect)
	}
	s.Grace, s.Log, s.Line = stopGrace, cfg.Log, cfg.line
	if cfg.Getenv != nil && cfg.Getenv("SWARM_IN_CONTAINER") != "" {
		s.AwayHelp = staleSocket
	}
	return s, nil
}

// owner is the user that the program runs as.
func (c *containers) owner() *bridge.Owner {
	u, g, _ := strings.Cut(c.spec.User, ":")
	uid, err := strconv.Atoi(u)
	if err != nil {
		return &bridge.Owner{UID: os.Geteuid(), GID: os.Getegid()} // Check has refused everything else
	}
	gid, err := strconv.Atoi(g)
	if err != nil {
		gid = -1 // files are for the user alone
	}
	return &bridge.Owner{UID: uid, GID: gid}
}

func (c *containers) name() string { return "docker" }

func (c *containers) isolation() string {
	return text.Clip(c.spec.Isolation(), maxIsolation)
}

// fingerprint tells programs apart that would be started differently.
func (c *containers) fingerprint() string {
	s := c.spec
	if s.Client == launch.ClientOriginal { // else the digest is that of daemons that knew no other client
		s.Env = append(slices.Clone(s.Env), s.Client)
	}
	started := fmt.Appendf(nil, "%q %q %q %q %q %q %q %q %q", s.Image, s.Entrypoint, s.Cmd, s.Program, s.WorkDir, s.Env, s.DataDir, s.ModelDir, s.Mounts)
	return digestOfStart(started, s.Args)
}

func (c *containers) check(ctx context.Context) error {
	spec := c.spec
	spec.BridgeDir, spec.Spill = "", "" // they are made later
	client, err := c.launcher.Client(ctx, spec)
	if err != nil {
		return err
	}
	c.checked, c.original = true, client == launch.ClientOriginal
	return nil
}

// find looks for what a previous run of this node left, by label and record: the container whose program lives on, or has ended
// since, is found, all others are to be removed. It returns the session to be adopted, nil if there is none: that program's,
// or one that was finished and whose program would be started the same way. A program that is one of several ranks is not adopted: the others
// are of the daemon that started them. It has finished if it has ended well, also with nobody there to see it, and else all ranks are started again.
func (c *containers) find(ctx context.Context) (*session.Saved, error) {
	list, err := c.launcher.Find(ctx, c.spec.Node, c.spec.Scope)
	if err != nil {
		return nil, err
	}
	rec := c.journal.Record()
	several := c.ranked(rec)
	c.found, c.others, c.done, c.lost, c.rebuilt = nil, nil, false, false, ""
	for i, f := range list {
		own := rec.Incarnation != "" && f.Incarnation == rec.Incarnation && f.State != "created"
		switch {
		case own && several:
			c.done = hasFinal(rec) && !f.Finished.IsZero() && f.ExitCode == 0
		case own && (!f.Finished.IsZero() || rec.Isolation == c.isolation()):
			c.found = &list[i]
			continue
		case own: // it runs in another isolation than the one that is wanted now, which it would be told of: it is not let run on
			c.rebuilt = rec.Isolation
		}
		c.others = append(c.others, f)
	}
	if c.found != nil || (c.done || c.wasDone(rec)) && rec.Program == c.fingerprint() {
		return rec.Session, nil
	}
	c.lost = !several && rec.Incarnation != ""
	return nil, nil
}

// ranked reports whether the program of a previous run, or the one of this run, is the first of several ranks.
func (c *containers) ranked(rec session.Record) bool { return c.cfg.Ranks != nil || rec.Ranks }

// hasFinal reports whether a program was given its final model.
func hasFinal(rec session.Record) bool { return rec.Session != nil && rec.Session.Finished }

// wasDone reports whether a program of which there is no container need not run again. One that is by itself has ended with its final model, unless somebody
// saw it fail; rank 0 may have been removed before it did anything with it.
func (c *containers) wasDone(rec session.Record) bool {
	if rec.Exit == nil {
		return hasFinal(rec) && !c.ranked(rec)
	}
	return hasFinal(rec) && *rec.Exit == 0
}

// clean removes what nobody adopts. It only keeps the machine tidy, so what goes wrong is logged, unless that may be a rank 0 which still runs: its ranks
// would meet those of the next start.
func (c *containers) clean(ctx context.Context) (err error) {
	if c.done {
		c.journal.End(0) // the container tells of it no more
		c.done = false
	}
	for _, f := range c.others {
		c.cfg.Log.Info("removing a container of this node's previous run", "container", engine.ShortID(f.ID), "state", f.State)
		failed := c.launcher.Remove(ctx, f)
		switch {
		case failed != nil && c.cfg.Ranks != nil:
			err = fmt.Errorf("rank 0 of a start before may still run, and beside it no rank is started: %w", failed)
		case failed != nil:
			c.cfg.Log.Warn("could not remove a container of this node's previous run", "container", engine.ShortID(f.ID), "err", failed)
		}
	}
	c.others = nil
	switch {
	case c.rebuilt != "":
		c.cfg.Log.Warn("this node's previous run let its program run in another isolation: it was stopped and is started anew", "isolation", c.isolation(), "former_isolation", c.rebuilt)
	case c.lost:
		c.cfg.Log.Warn("the container of this node's previous run is gone, and its program with it; it is started anew", "incarnation", c.journal.Record().Incarnation)
	}
	return err
}

// cleanRanks removes whatever there is of rank 0 before another one is started.
func (c *containers) cleanRanks(ctx context.Context) (err error) {
	if c.others, err = c.launcher.Find(ctx, c.spec.Node, c.spec.Scope); err != nil {
		return fmt.Errorf("look for rank 0 of a start before: %w", err)
	}
	return c.clean(ctx)
}

// stopPrevious ends what is left of a previous run when the node is stopped before it could adopt that: a stopped node leaves
// no program behind.
func (c *containers) stopPrevious(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), previousTimeout)
	defer cancel()
	if c.found != nil && c.found.Finished.IsZero() { // one that has ended is for the next run to judge
		c.others = append(c.others, *c.found)
		c.found = nil
	}
	c.lost, c.rebuilt = false, ""
	if err := c.clean(ctx); err != nil {
		c.cfg.Log.Warn("a program of this node's previous run is left", "err", err)
	}
}

func (c *containers) start(ctx context.Context, env []string, meets *rendezvous.Meeting) (Running, error) {
	if c.found != nil {
		return c.adopt(ctx)
	}
	if c.cfg.Ranks != nil {
		if err := c.cleanRanks(ctx); err != nil {
			return nil, err
		}
	}
	if !c.checked {
		if err := c.check(ctx); err != nil {
			return nil, err
		}
	}
	spec := c.spec
	if c.original {
		if err := c.serveOriginal(&spec); err != nil {
			return nil, err
		}
	}
	if meets != nil {
		if err := c.beginAsRank(&spec, meets); err != nil {
			return nil, err
		}
	}
	spec.Env = launch.LastWins(spec.Env, env)
	spec.Incarnation = rand.Text()
	spec.Delivered = func(to time.Time) { c.logPosition.write(spec.Incarnation, to) }
	c.journal.Begin(spec.Incarnation, c.fingerprint(), c.isolation(), c.cfg.Ranks != nil)
	p, err := c.launcher.Start(ctx, spec)
	if err != nil {
		return nil, err // never a nil *Program in an interface
	}
	isolation, log := c.isolation(), c.cfg.Log
	log.Info("program started", "program", c.cfg.Program, "image", spec.Image, "container", engine.ShortID(p.ID()))
	if isolation == (container.Spec{}).Isolation() {
		log.Info("runtime docker: the program is isolated", "isolation", isolation)
	} else {
		log.Warn("runtime docker: the program's isolation was opened; the other peers can see that", "isolation", isolation)
	}
	if o := c.owner(); o != nil && o.UID == 0 && !spec.Privileged {
		log.Warn("the program runs as root: it has no capabilities, but what it writes in the model directory is root's on this host, set-user-ID programs too; name another user with --ml-user",
			"model_dir", spec.ModelDir)
	}
	return p, nil
}

// adopt adopts the program of a previous run, running or ended.
func (c *containers) adopt(ctx context.Context) (Running, error) {
	spec, incarnation := c.spec, c.found.Incarnation
	spec.LogSince, spec.Delivered = c.logPosition.read(incarnation), func(to time.Time) { c.logPosition.write(incarnation, to) }
	p, err := c.launcher.Adopt(ctx, *c.found, spec)
	if err != nil {
		return nil, err
	}
	c.cfg.Log.Info("program of this node's previous run is adopted", "program", c.cfg.Program, "container", engine.ShortID(p.ID()), "state", c.found.State)
	return p, nil
}

// note keeps how the program ended, or that it was stopped. Nothing of it is left; one that was given the final model need not
// run again.
func (c *containers) note(outcome session.Outcome, code int, stopped bool) {
	for _, dir := range []string{originalDir, rankDir} {
		if err := os.RemoveAll(filepath.Join(c.cfg.SpillDir, dir)); err != nil {
			c.cfg.Log.Warn("could not remove what the program began by", "err", err)
		}
	}
	// Rank 0 of several may have been stopped while it saved that model, and all train again then.
	if outcome == session.Finished && (code == 0 || stopped && c.cfg.Ranks == nil) {
		c.journal.End(0)
		return
	}
	c.journal.Forget()
}
