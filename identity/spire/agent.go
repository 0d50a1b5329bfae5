package spire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	agentProbe = 50 * time.Millisecond // between looks whether the socket answers
	// An agent that ends is started again after a wait that doubles from the first to the last of these, and begins
	// anew when an agent has lived for agentSteady.
	agentFirstWait = time.Second
	agentLastWait  = 30 * time.Second
	agentSteady    = time.Minute
	// agentNotice is how often a wait for the agent is said again.
	agentNotice = 30 * time.Second
	agentGrace  = 5 * time.Second
	// agentSlow is how long an agent may say nothing of why it does not answer yet.
	agentSlow = 10 * time.Second
	// agentLearns is how long an agent that has joined may take until it knows its entries: it and its server ask for what is
	// new every five seconds.
	agentLearns = 15 * time.Second
)

// AgentConfig describes a SPIRE agent that is this process's child.
type AgentConfig struct {
	Binary     string // spire-agent; "": found
	ConfigFile string // the user's; "" writes a default into StateDir
	// StateDir holds the agent's socket, its data unless the user says otherwise, and the default configuration. It is made,
	// mode 0700. Only one agent runs in it at a time.
	StateDir      string
	ServerAddress string
	ServerPort    int    // 0: the configuration file's, else 8081
	TrustDomain   string // "": the configuration file's, the token source's, else swarm.learning
	JoinToken     string
	GenJoinToken  *TokenSource // asked for a token whenever the agent needs one; nil: none
	// Role and NodeName are the node's for which the agent runs. Without a name a generated token is for the role's agents.
	Role     identity.Role
	NodeName string
	// Shared: where another process runs an agent in StateDir, that one is used, and run by this process once the other has ended.
	Shared bool
	Args   []string // further options of `spire-agent run`, as -name=value
	Swarmd string   // the binary that is the workload attestor plugin; "": none is loaded by the default configuration
	Log    *slog.Logger
}

// Agent is a SPIRE agent that is kept running. All methods are safe for concurrent use.
type Agent struct {
	setup  *agentSetup
	state  *agentState
	lock   *filelock.Lock // of the directory; nil while another process has it. Belongs to run until done
	cancel context.CancelFunc
	done   chan struct{}
}

// permanent is a failure that no further try mends.
type permanent struct{ text string }

func (p *permanent) Error() string { return p.text }

// StartAgent starts an agent and returns when its Workload API socket answers. While the server can't be reached it waits
// and says so; it fails at once on what only a user can mend. ctx bounds only the start. From then on the agent is started
// again whenever it ends. The caller closes it; it ends with this process however that ends.
func StartAgent(ctx context.Context, cfg AgentConfig) (*Agent, error) {
	a, err := newAgent(ctx, cfg)
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	ready := make(chan error, 1)
	go a.run(runCtx, ready)
	notice := time.NewTicker(agentNotice / 10)
	defer notice.Stop()
	for {
		select {
		case err = <-ready:
		case <-notice.C:
			a.state.sayProblem()
			continue
		case <-ctx.Done():
			err = context.Cause(ctx)
			if why := a.Problem(); why != "" {
				err = fmt.Errorf("%w (%s)", err, why)
			}
		}
		if err == nil {
			return a, nil
		}
		_ = a.Close()
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
}

// newAgent checks the configuration and takes the directory.
func newAgent(ctx context.Context, cfg AgentConfig) (*Agent, error) {
	setup, err := newAgentSetup(cfg)
	if err != nil {
		return nil, err
	}
	a := &Agent{setup: setup, state: &agentState{setup: setup, refused: make(chan struct{}, 1)}, done: make(chan struct{})}
	if cfg.Shared {
		a.lock, err = setup.takeOrShare()
	} else {
		a.lock, err = setup.takeDir(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	return a, nil
}

// Socket returns the path of the Workload API's socket.
func (a *Agent) Socket() string { return a.setup.socket }

// Problem says in words why the agent doesn't get on, "" if nothing is known to be wrong.
func (a *Agent) Problem() string { return a.state.whatIsWrong() }

// Explain says why this process gets no identity from the agent, with the command that would help. last is the Workload
// API's last answer. It suits identity.SourceConfig.
func (a *Agent) Explain(last error) string { return a.state.explain(last) }

// Close ends the agent and blocks until it has ended. It may be called more than once.
func (a *Agent) Close() error {
	a.cancel()
	<-a.done
	if a.lock == nil {
		return nil // another process has the directory
	}
	if err := a.lock.Close(); !errors.Is(err, os.ErrClosed) { // which unlocks
		return err
	}
	return nil
}

// run keeps an agent running until ctx ends. ready gets one value: when the first one answers, or why none ever will.
func (a *Agent) run(ctx context.Context, ready chan<- error) {
	defer close(a.done)
	started := false
	onReady := func() {
		if !started {
			started = true
			ready <- nil
		}
	}
	if a.lock == nil {
		if err := a.share(ctx, onReady); err != nil {
			if ctx.Err() == nil && !started {
				ready <- err
			}
			return
		}
	}
	for wait := agentFirstWait; ; wait = min(2*wait, agentLastWait) {
		begin := time.Now()
		err := a.once(ctx, onReady)
		if ctx.Err() != nil {
			return
		}
		var end *permanent
		if errors.As(err, &end) {
			if started {
				a.setup.cfg.Log.Error("SPIRE agent can't go on; this node keeps its identity until it expires", "why", end.text)
			} else {
				ready <- end
			}
			a.state.setProblem(end.text)
			return
		}
		if time.Since(begin) > agentSteady {
			wait = agentFirstWait
		}
		a.state.setProblem(err.Error())
		a.setup.cfg.Log.Warn("SPIRE agent ended; starting it again", "why", err.Error(), "in", wait.String())
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// once runs one agent until it ends, and tells when it answers. The error is why it ended.
func (a *Agent) once(ctx context.Context, onReady func()) error {
	var join *Join
	if a.setup.cfg.GenJoinToken != nil && (a.state.keyLost() || !readSaved(a.setup.dataDir).usable(time.Now())) {
		j, err := a.setup.cfg.GenJoinToken.Join(ctx, a.setup.cfg.Role, a.setup.cfg.NodeName)
		if err != nil {
			return a.state.hopeless(err)
		}
		a.setup.cfg.Log.Info("join token made", "by", j.Origin, "trust_domain", j.TrustDomain, "agent", j.Agent)
		a.state.setAlias(j.Agent)
		join = &j
	}
	args, domain, err := a.setup.prepare(join)
	if err != nil {
		return err
	}
	a.state.setDomain(domain)
	if err := awaitSilence(ctx, a.setup.socket); err != nil {
		return a.state.hopeless(err)
	}
	a.state.begin(join != nil)
	c, err := startChild(childSpec{Name: "spire-agent", Path: a.setup.binary, Args: args, Log: slog.New(&agentLog{agent: a.state, next: a.setup.cfg.Log.Handler()}), Grace: agentGrace})
	if err != nil {
		return a.state.hopeless(err)
	}
	defer func() { _ = c.Close() }()
	if err := a.awaitSocket(ctx, c); err != nil {
		return err
	}
	a.state.ready()
	onReady()
	select {
	case <-ctx.Done():
		a.state.setProblem("") // it is no fault from now on that the agent's plugins end before it does
		return ctx.Err()
	case <-c.Done():
		return a.failure(ctx, c.Err())
	}
}

// awaitSocket returns nil when the agent answers.
func (a *Agent) awaitSocket(ctx context.Context, c *spireChild) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { a.watchStart(watching) })
	defer watch.Wait()
	defer stop()
	tick := time.NewTicker(agentProbe)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.state.refused:
			return a.failure(ctx, errors.New("spire-agent was stopped"))
		case <-c.Done():
			return a.failure(ctx, c.Err())
		case <-tick.C:
		}
		if conn, err := net.DialTimeout("unix", a.setup.socket, time.Second); err == nil {
			_ = conn.Close()
			return nil
		}
	}
}
