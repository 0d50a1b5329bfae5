package spire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	Args     []string // further options of `spire-agent run`, as -name=value
	Swarmd   string   // the binary that is the workload attestor plugin; "": none is loaded by the default configuration
	Log      *slog.Logger
}

// Agent is a SPIRE agent that is kept running. All methods are safe for concurrent use.
type Agent struct {
	cfg     AgentConfig
	file    agentFile
	binary  string
	socket  string
	dataDir string
	logFile string // the user sends the agent's log there, "": to swarmd's
	lock    *filelock.Lock
	cancel  context.CancelFunc
	done    chan struct{}
	refused chan struct{} // the server refuses the agent, or is another one: there is nothing to wait for

	mu        sync.Mutex
	domain    string
	alias     string   // path by which entries know it, "" if somebody else made its token
	selectors []string // of this process, as the agent saw them last
	complaint string   // the last warning or error that the agent which runs now has logged
	problem   string   // why the agent doesn't get on, in words
	joined    bool     // the agent which runs now has, or began with, an SVID
	gotToken  bool     // it was given a token that was made for it
	lostKey   bool     // the agent can't use the SVID that it has kept: it needs a token
	up        bool     // answers
	everUp    bool
	began     time.Time // the agent was started
	since     time.Time // it answers
	said      time.Time
	saidWhat  string
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
			a.sayProblem()
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
func newAgent(ctx context.Context, cfg AgentConfig) (_ *Agent, err error) {
	a := &Agent{cfg: cfg, done: make(chan struct{}), refused: make(chan struct{}, 1), binary: cfg.Binary}
	if a.binary == "" {
		if a.binary, err = Find("spire-agent"); err != nil {
			return nil, err
		}
	}
	if cfg.ConfigFile != "" {
		if a.file, err = readAgentFile(cfg.ConfigFile, switched(cfg.Args, "expandEnv")); err != nil {
			return nil, err
		}
	}
	if a.cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	if cfg.GenJoinToken != nil && cfg.GenJoinToken.Log == nil {
		source := *cfg.GenJoinToken
		source.Log, a.cfg.GenJoinToken = cfg.Log, &source
	}
	given := func(name, otherwise string) string {
		if v, ok := argument(cfg.Args, name); ok {
			return v
		}
		return otherwise
	}
	a.socket = given("socketPath", filepath.Join(a.cfg.StateDir, "agent.sock"))
	a.dataDir = given("dataDir", first(a.file.Agent.DataDir, filepath.Join(a.cfg.StateDir, "data")))
	a.logFile = given("logFile", a.file.Agent.LogFile)
	if err := os.MkdirAll(a.cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	if err := os.Chmod(a.cfg.StateDir, 0o700); err != nil { //nolint:gosec // a directory needs its x
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	if a.lock, err = a.takeDir(ctx); err != nil {
		return nil, fmt.Errorf("start SPIRE agent: %w", err)
	}
	return a, nil
}

// takeDir locks the directory, and waits for another process that has it.
func (a *Agent) takeDir(ctx context.Context) (*filelock.Lock, error) {
	for said := false; ; said = true {
		lock, err := filelock.Take(filepath.Join(a.cfg.StateDir, "lock"))
		if !errors.Is(err, filelock.ErrLocked) {
			return lock, err
		}
		if !said {
			a.cfg.Log.Info("another process runs a SPIRE agent in this directory; waiting for its end", "dir", a.cfg.StateDir)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process runs a SPIRE agent in %s: %w", a.cfg.StateDir, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Socket returns the path of the Workload API's socket.
func (a *Agent) Socket() string { return a.socket }

// Problem says in words why the agent doesn't get on, "" if nothing is known to be wrong.
func (a *Agent) Problem() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.problem
}

// Close ends the agent and blocks until it has ended. It may be called more than once.
func (a *Agent) Close() error {
	a.cancel()
	<-a.done
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
	for wait := agentFirstWait; ; wait = min(2*wait, agentLastWait) {
		begin := time.Now()
		err := a.once(ctx, onReady)
		if ctx.Err() != nil {
			return
		}
		var end *permanent
		if errors.As(err, &end) {
			if started {
				a.cfg.Log.Error("SPIRE agent can't go on; this node keeps its identity until it expires", "why", end.text)
			} else {
				ready <- end
			}
			a.setProblem(end.text)
			return
		}
		if time.Since(begin) > agentSteady {
			wait = agentFirstWait
		}
		a.setProblem(err.Error())
		a.cfg.Log.Warn("SPIRE agent ended; starting it again", "why", err.Error(), "in", wait.String())
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
	if a.cfg.GenJoinToken != nil && (a.keyLost() || !readKept(a.dataDir).usable(time.Now())) {
		j, err := a.cfg.GenJoinToken.Join(ctx, a.cfg.Role, a.cfg.NodeName)
		if err != nil {
			return a.hopeless(err)
		}
		a.cfg.Log.Info("join token made", "by", j.Origin, "trust_domain", j.TrustDomain, "agent", j.Agent)
		a.mu.Lock()
		a.alias = j.Agent
		a.mu.Unlock()
		join = &j
	}
	args, err := a.prepare(join)
	if err != nil {
		return err
	}
	if err := awaitSilence(ctx, a.socket); err != nil {
		return a.hopeless(err)
	}
	a.begin(join != nil)
	c, err := startChild(childSpec{Name: "spire-agent", Path: a.binary, Args: args, Log: slog.New(&agentLog{agent: a, next: a.cfg.Log.Handler()}), Grace: agentGrace})
	if err != nil {
		return a.hopeless(err)
	}
	defer func() { _ = c.Close() }()
	if err := a.awaitSocket(ctx, c); err != nil {
		return err
	}
	a.ready()
	onReady()
	select {
	case <-ctx.Done():
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
		case <-a.refused:
			return a.failure(ctx, errors.New("spire-agent was stopped"))
		case <-c.Done():
			return a.failure(ctx, c.Err())
		case <-tick.C:
		}
		if conn, err := net.DialTimeout("unix", a.socket, time.Second); err == nil {
			_ = conn.Close()
			return nil
		}
	}
}

func (a *Agent) setDomain(domain string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.domain = domain
}

func (a *Agent) setProblem(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem, a.up = text, false
}

// begin forgets what an agent before said.
func (a *Agent) begin(gotToken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.selectors, a.complaint, a.began = nil, "", time.Now()
	a.joined, a.gotToken = readKept(a.dataDir).usable(a.began), gotToken
	select {
	case <-a.refused:
	default:
	}
}

func (a *Agent) isUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.up
}

// hopeless is a failure that ends the first start. What has worked before may work again: the server comes back, the program
// was only being replaced.
func (a *Agent) hopeless(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.everUp {
		return err
	}
	return &permanent{err.Error()}
}

func (a *Agent) keyLost() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lostKey
}

func (a *Agent) ready() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up, a.everUp, a.joined, a.since, a.problem, a.lostKey = true, true, true, time.Now(), "", false
	a.cfg.Log.Info("SPIRE agent is ready", "socket", a.socket, "spiffe_id", readKept(a.dataDir).id())
}

// sayProblem repeats what the agent waits for.
func (a *Agent) sayProblem() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sayLocked()
}

func (a *Agent) sayLocked() {
	if a.problem == "" || a.up || a.saidWhat == a.problem && time.Since(a.said) < agentNotice {
		return
	}
	a.said, a.saidWhat = time.Now(), a.problem
	a.cfg.Log.Warn("waiting for the SPIRE agent", "why", a.problem)
}
