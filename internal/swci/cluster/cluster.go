// Package cluster brings up a whole swarm of swarmd processes on this machine and takes it down again.
//
// Nothing outlives Close: not a process (each child also dies with this one), not a socket, not a temporary file. What
// stays is the folder of logs that the caller named.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/mountns"
	"github.com/swarmd/swarmd/internal/netns"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	startWait = 60 * time.Second // for a daemon to become ready
	stopGrace = 8 * time.Second  // for all to end by themselves, before KILL
	snMarker  = "Starting SWARM-API-SERVER on port"
	programID = "program | "
	tempLogs  = "logs" // in the temporary folder
	maxProcs  = 256    // that were started, so that each can say how it ended before anybody listens
)

// Config describes a swarm on this machine.
type Config struct {
	Swarmd string // path of the binary
	SNs    int    // at least 1; the first is the Sentinel
	Spire  bool   // identities come from a SPIRE server and agent instead of the embedded authority
	LogDir string // one file per daemon; made if missing; empty: they go with the temporary folder
	Keep   bool   // leave the temporary folder (not the processes, nor the models in transit)
	// Containers tells that the SLs run their programs as containers. They, and what else has the swarm's scope at the
	// container engine, are gone after Close.
	Containers bool
	// Nodes tells that the SNs and SLs are containers too, on a network of their own. Their names are sn-0, sl-0, … at the
	// engine too, so there can be one such swarm at an engine. Needs Containers, and the embedded authority.
	Nodes bool
	// Place, if given, says where the node of a name runs: see netns. Such nodes use the default ports.
	Place   func(name string) (*netns.Host, error)
	OnLine  func(name, line string, program bool)
	Environ []string // of the daemons; nil means this process's own
}

// Cluster is a swarm on this machine. Start, then StartSL any number of times, then Close.
type Cluster struct {
	cfg    Config
	dir    tempDir
	places map[string]*netns.Host
	bridge tempDir // of the bridges, on tmpfs when there is one
	scope  string
	ports  ports
	apis   []string // as this process reaches them
	sns    []string // as the nodes do
	exits  chan Exit

	mu      sync.Mutex
	procs   []*Proc
	logs    []*logFile
	closing bool
}

// New makes the temporary folders. Without error, Close must be called.
func New(cfg Config) (*Cluster, error) {
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	if cfg.OnLine == nil {
		cfg.OnLine = func(string, string, bool) {}
	}
	sweep(shortTemp(), shmDir)
	dir, err := newTemp(shortTemp(), cfg.Keep)
	if err != nil {
		return nil, err
	}
	if cfg.LogDir == "" {
		cfg.LogDir = filepath.Join(dir.path, tempLogs)
	}
	if err := os.MkdirAll(cfg.LogDir, 0o750); err != nil {
		dir.remove()
		return nil, fmt.Errorf("make log folder: %w", err)
	}
	bridge, err := newTemp(shmDir, false)
	if err != nil {
		bridge = tempDir{path: filepath.Join(dir.path, "bridge")}
	}
	c := &Cluster{cfg: cfg, dir: dir, bridge: bridge, scope: newScope(), ports: ports{given: map[int]bool{}}, places: map[string]*netns.Host{}, exits: make(chan Exit, maxProcs)}
	if cfg.Containers {
		if err := c.noteScope(); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// shortTemp is the folder for temporary files, unless sockets below it would have names that Linux refuses (108 bytes).
func shortTemp() string {
	if dir := os.TempDir(); len(dir) <= 50 {
		return dir
	}
	return "/tmp"
}

// mark is the environment entry by which all processes of this swarm are known.
func (c *Cluster) mark() string { return markOf(c.dir.path) }

func markOf(dir string) string { return "SWARM_LOCAL_ID=" + dir }

// Dir is the temporary folder.
func (c *Cluster) Dir() string { return c.dir.path }

// APIs returns the SNs' API addresses, the Sentinel's first. Valid after Start.
func (c *Cluster) APIs() []string { return slices.Clone(c.apis) }

// Exits delivers every process's end that Close did not ask for.
func (c *Cluster) Exits() <-chan Exit { return c.exits }

// Procs returns all processes started so far.
func (c *Cluster) Procs() []*Proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.procs)
}

// Start brings up the authority or SPIRE, and the SNs and returns when all are ready.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.startIdentity(ctx); err != nil {
		return err
	}
	if c.cfg.Nodes {
		if err := c.makeNetwork(ctx); err != nil {
			return err
		}
	}
	var sentinelFS int
	for i := range c.cfg.SNs {
		args, fs, err := c.snArgs(i, sentinelFS)
		if err != nil {
			return err
		}
		if i == 0 {
			sentinelFS = fs
		}
		ready := make(chan struct{})
		p, err := c.launch("sn-"+strconv.Itoa(i), SN, onceSeen(snMarker, ready), args...)
		if err != nil {
			return err
		}
		// One after the other: the Sentinel must be there to be joined, and a joiner to be a voter before the next.
		if err := c.await(ctx, p, "its API", func() bool { return closed(ready) }); err != nil {
			return err
		}
		api := c.sns[i]
		if c.cfg.Nodes {
			if api, err = c.reach(ctx, p.Name, api); err != nil {
				return err
			}
		}
		c.apis = append(c.apis, api)
	}
	return nil
}

// snArgs is the command line of the SN with index i. Each SN has a loopback address of its own, because an SN whose
// --host-ip is the Sentinel's would be the Sentinel.
func (c *Cluster) snArgs(i, sentinelFS int) (args []string, fs int, err error) {
	name := "sn-" + strconv.Itoa(i)
	host, err := c.host(name, SNHost(i))
	if err != nil {
		return nil, 0, err
	}
	sentinel := host
	if i > 0 {
		sentinel, _, err = net.SplitHostPort(c.sns[0])
	}
	p := defaultPorts
	for k := range p {
		if c.cfg.Place == nil && err == nil {
			p[k], err = c.ports.take(SNHost(i))
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if i == 0 {
		sentinelFS = p[2]
	}
	c.sns = append(c.sns, net.JoinHostPort(host, strconv.Itoa(p[1])))
	return append([]string{
		c.cfg.Swarmd, "run-sn", "--name", name, "--host-ip", host, "--sentinel-ip", sentinel,
		"--sn-p2p-port", strconv.Itoa(p[0]), "--sn-api-port", strconv.Itoa(p[1]), "--sn-fs-port", strconv.Itoa(p[2]),
		"--sentinel-fs-port", strconv.Itoa(sentinelFS), "--found-at-once", // no other machine has this one's loopback addresses
		"--state-dir", filepath.Join(c.dir.path, name),
	}, append(c.authority().args(), c.runtimeArgs()...)...), p[2], nil
}

// SNHost is the loopback address of the SN with index i.
func SNHost(i int) string { return "127.0.0." + strconv.Itoa(1+i) }

// SLSpec describes one SL. Without Program it waits for a program that is started by hand.
type SLSpec struct {
	Index    int
	Expected int // peers of the swarm
	DataDir  string
	ModelDir string
	Program  string
	Args     string // of Program, as run-sl divides them into words
	Platform string
	Python   string
	Image    string   // of the program's container, with Config.Containers
	Env      []string // K=V for the program
	Checkin  string   // check-in mode of a program that chooses none; empty: none
	Linger   time.Duration
}

// SLName is the name of the SL with index i.
func SLName(i int) string { return "sl-" + strconv.Itoa(i) }

// StartSL starts an SL; it connects to the SNs in turn. It does not wait for it.
func (c *Cluster) StartSL(s SLSpec) (*Proc, error) {
	name := SLName(s.Index)
	own, err := c.host(name, "127.0.0.1")
	if err != nil {
		return nil, err
	}
	fs := defaultPorts[2]
	if c.cfg.Place == nil {
		if fs, err = c.ports.take("127.0.0.1"); err != nil {
			return nil, err
		}
	}
	host, port, err := net.SplitHostPort(c.sns[s.Index%len(c.sns)])
	if err != nil {
		return nil, fmt.Errorf("address of SN: %w", err)
	}
	args := append([]string{
		c.cfg.Swarmd, "run-sl", "--name", name, "--host-ip", own, "--sn-ip", host, "--sn-api-port", port,
		"--sl-fs-port", strconv.Itoa(fs), "--expected-peers", strconv.Itoa(s.Expected),
	}, append(c.authority().args(), c.runtimeArgs()...)...)
	dirs, err := c.slDirs(s.Index)
	if err != nil {
		return nil, err
	}
	args = append(args, dirs...)
	if s.Program == "" {
		args = append(args, "--attach")
	} else {
		args = append(args, "--data-dir", s.DataDir, "--model-dir", s.ModelDir, "--model-program", s.Program, "--sl-platform", s.Platform)
	}
	if s.Args != "" {
		args = append(args, "--model-program-args", s.Args)
	}
	if c.cfg.Containers {
		args = append(args, "--ml-runtime", "docker", "--ml-image", s.Image)
	}
	if s.Python != "" {
		args = append(args, "--python", s.Python)
	}
	if s.Checkin != "" {
		args = append(args, "--checkin-default", s.Checkin)
	}
	if s.Linger > 0 {
		args = append(args, "--linger", s.Linger.String())
	}
	for _, kv := range s.Env {
		args = append(args, "-e", kv)
	}
	return c.launch(name, SL, nil, args...)
}

// slDirs are the options that keep an SL's files in the swarm's folders. In a container an SL is root: what it makes could
// not be removed by another user, so it has volumes, and the bridge's default place.
func (c *Cluster) slDirs(i int) ([]string, error) {
	var args []string
	if !c.cfg.Nodes {
		args = append(args, "--state-dir", filepath.Join(c.dir.path, SLName(i)))
	}
	if c.cfg.Nodes && os.Geteuid() != 0 {
		return args, nil
	}
	bridge := c.bridgeDir(i)
	if err := os.MkdirAll(bridge, 0o700); err != nil {
		return nil, fmt.Errorf("make bridge folder: %w", err)
	}
	return append(args, "--bridge-dir", bridge), nil
}

func (c *Cluster) bridgeDir(i int) string { return filepath.Join(c.bridge.path, SLName(i)) }

// AwaitBridge returns the folder for SWARM_BRIDGE_DIR of an SL that waits for a program, once its socket answers.
func (c *Cluster) AwaitBridge(ctx context.Context, i int, p *Proc) (string, error) {
	var found string
	err := c.await(ctx, p, "its bridge", func() bool {
		for _, pattern := range []string{"bridge.sock", "*/bridge.sock", "*/*/bridge.sock"} {
			socks, err := filepath.Glob(filepath.Join(c.bridgeDir(i), pattern))
			if err == nil && len(socks) > 0 && answers(socks[0]) {
				found = filepath.Dir(socks[0])
				return true
			}
		}
		return false
	})
	return found, err
}

// launch starts a daemon, logging to LogDir/name.log. watch sees each of its lines; it may be nil.
func (c *Cluster) launch(name string, role Role, watch func(line string), argv ...string) (*Proc, error) {
	log, err := openLog(filepath.Join(c.cfg.LogDir, name+".log"))
	if err != nil {
		return nil, err
	}
	if watch == nil {
		watch = func(string) {}
	}
	if at := c.places[name]; at != nil {
		argv = at.Command(argv...)
	}
	return c.adopt(log, spec{
		name: name, role: role, argv: argv, env: c.cfg.Environ,
		onOut: func(line string) {
			text, program := strings.CutPrefix(line, programID)
			if !program {
				watch(line)
				log.line(line)
			}
			c.cfg.OnLine(name, text, program)
		},
		onErr: func(line string) {
			watch(line)
			log.line(line)
			c.cfg.OnLine(name, line, false)
		},
	})
}

// Alone is an ML program without a daemon.
type Alone struct {
	Name  string
	Dir   string // working directory
	Argv  []string
	Env   []string          // whole environment
	Binds []mountns.Bind    // see launch.FixedPaths
	Line  func(line string) // gets all its lines
}

// RunProgram starts an ML program. Its end is not sent to Exits.
func (c *Cluster) RunProgram(a Alone) (*Proc, error) {
	return c.adopt(nil, spec{name: a.Name, role: Program, argv: a.Argv, dir: a.Dir, env: a.Env, binds: a.Binds, onOut: a.Line, onErr: a.Line})
}

func (c *Cluster) adopt(log *logFile, s spec) (*Proc, error) {
	s.onExit = func(e Exit) {
		if s.role == Program {
			return
		}
		c.mu.Lock()
		closing := c.closing
		c.mu.Unlock()
		if !closing {
			c.exits <- e
		}
	}
	s.env = append(slices.Clone(s.env), c.mark(), "SWARM_SCOPE="+c.scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	if log != nil {
		c.logs = append(c.logs, log)
	}
	if c.closing {
		return nil, errors.New("start " + s.name + ": swarm is being stopped")
	}
	if len(c.procs) >= cap(c.exits) {
		return nil, fmt.Errorf("start %s: more than %d processes", s.name, cap(c.exits))
	}
	p, err := start(s)
	if err != nil {
		return nil, err
	}
	c.procs = append(c.procs, p)
	return p, nil
}

// await polls until ready, and fails when the process ends or time is up. It polls because readiness of a socket sends
// no event.
func (c *Cluster) await(ctx context.Context, p *Proc, what string, ready func() bool) error {
	timeout := time.NewTimer(startWait)
	defer timeout.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.Done():
			return Failure(p.Exit())
		case <-timeout.C:
			return &exit.Error{Status: exit.TimedOut, Err: fmt.Errorf("%s: %s is not ready after %s%s", p.Name, what, startWait, quote(p.Tail())), Hint: c.logHint(p.Name)}
		case <-tick.C:
		}
	}
	return nil
}

// logHint tells where a daemon's log stays, if it does.
func (c *Cluster) logHint(name string) string {
	if c.cfg.LogDir == filepath.Join(c.dir.path, tempLogs) {
		return ""
	}
	return "its whole log is " + filepath.Join(c.cfg.LogDir, name+".log")
}

// Failure is the error for a process that ended when it should not have: its name, exit code and last lines.
func Failure(e Exit) error {
	return fmt.Errorf("%s%s", e, quote(e.Tail))
}

// quote renders last lines below a message.
func quote(tail []string) string {
	if len(tail) == 0 {
		return " and said nothing"
	}
	return ", last lines:\n    " + strings.Join(tail, "\n    ")
}

// Close ends all processes, programs and SLs first, and removes the temporary folders. It is safe to call twice.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closing = true
	procs, logs := slices.Clone(c.procs), c.logs
	c.logs = nil
	c.mu.Unlock()
	roots := make([]int, len(procs))
	for i, p := range procs {
		roots[i] = p.PID()
	}
	family := descendants(roots)
	grace := make(chan struct{})
	defer time.AfterFunc(stopGrace, func() { close(grace) }).Stop()
	for _, roles := range [][]Role{{SWOP}, {Program, SL}, {SN}, {Authority}} {
		var group []*Proc
		for _, p := range procs {
			if slices.Contains(roles, p.Role) {
				group = append(group, p)
			}
		}
		stop(grace, group)
	}
	// Workers that an ML program started are no children of ours, and outlive one that was killed.
	killLeft(append(family, marked(c.mark())...))
	for _, l := range logs {
		l.close()
	}
	if c.cfg.Containers {
		if err := cleanScope(c.scope); err != nil {
			// The folder with the scope's name stays for the next sweep.
			c.cfg.OnLine("containers", fmt.Sprintf("what is left of scope %s could not be removed, the next local run tries again: %v", c.scope, err), false)
			c.bridge.abandon()
			return
		}
	}
	c.bridge.remove()
	if !c.cfg.Keep {
		c.dir.remove()
	}
}

// stop sends TERM to all, waits until grace is over, and sends KILL to the rest.
func stop(grace <-chan struct{}, procs []*Proc) {
	for _, p := range procs {
		p.Signal(syscall.SIGTERM)
	}
	for _, p := range procs {
		select {
		case <-p.Done():
		case <-grace:
			p.Signal(syscall.SIGKILL)
			<-p.Done()
		}
	}
}

// answers reports whether something accepts connections on a unix socket.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
