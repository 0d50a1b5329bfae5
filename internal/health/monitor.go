package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/text"
)

// watchEvery is how often the verdict is looked at for systemd's status and the log.
const watchEvery = 2 * time.Second

// Config is what a Monitor needs.
type Config struct {
	Name string
	Role identity.Role
	// StateDir is the node's, locked by the caller for as long as the monitor is open.
	StateDir string
	// Awaits says what the node waits for until it has an identity: "Workload API at /run/agent.sock". May be empty.
	Awaits string
	// Listener is served in place of the health socket, and closed; nil: the socket is made.
	Listener net.Listener
	Log      *slog.Logger
}

// Monitor knows the health of this process's node and serves it on the health socket and to systemd, from before the
// node has an identity. All methods are safe for concurrent use.
type Monitor struct {
	cfg    Config
	server *http.Server
	stop   func() bool // of what tells systemd that the node stops
	quit   chan struct{}
	done   sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	identity func() identity.Status
	leader   func() time.Time
	ledger   func() error
	saw      time.Time
	ready    bool
}

// Open begins to serve. When ctx ends, systemd is told that the node stops; the socket answers until Close.
func Open(ctx context.Context, cfg Config) (*Monitor, error) {
	ln := cfg.Listener
	if ln == nil {
		var path string
		var err error
		if ln, path, err = listen(cfg.StateDir); err != nil {
			return nil, err
		}
		if filepath.Base(path) != SocketName {
			cfg.Log.Info("the state directory's path is too long for a socket in it: health is served elsewhere", "socket", path)
		}
	}
	m := &Monitor{cfg: cfg, quit: make(chan struct{})}
	m.server = &http.Server{
		Handler: handler(m.Report), ReadHeaderTimeout: answerTime, WriteTimeout: answerTime, IdleTimeout: answerTime, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	m.done.Go(func() {
		if err := m.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Warn("health is no longer served", "err", err)
		}
	})
	m.done.Go(m.watch)
	m.stop = context.AfterFunc(ctx, func() { m.tell(daemon.SdNotifyStopping) })
	return m, nil
}

// Close ends serving and waits for that.
func (m *Monitor) Close() error {
	m.stop()
	close(m.quit)
	err := m.server.Close() // removes the socket too
	m.done.Wait()
	if err != nil {
		return fmt.Errorf("close health socket: %w", err)
	}
	return nil
}

// Identity says where the state of the identity is found from now on.
func (m *Monitor) Identity(status func() identity.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.identity = status
}

// Leader says who knows when a raft leader last heard of this node, for a node that is in raft itself.
func (m *Monitor) Leader(seen func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leader = seen
}

// Ledger says who knows why this node's ledger is not whole, nil while it is.
func (m *Monitor) Ledger(whole func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger = whole
}

// Seen records that a raft leader has heard of this node now.
func (m *Monitor) Seen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saw = time.Now()
}

// Ready tells systemd that the node is up. Calling it again does nothing.
func (m *Monitor) Ready() {
	m.mu.Lock()
	was := m.ready
	m.ready = true
	m.mu.Unlock()
	if !was {
		m.tell(daemon.SdNotifyReady + "\n" + m.status())
	}
}

// Report judges the node as of now.
func (m *Monitor) Report() Report {
	m.mu.Lock()
	status, leader, ledger, f, ready := m.identity, m.leader, m.ledger, Facts{Awaits: m.cfg.Awaits, LeaderSeen: m.saw}, m.ready
	m.mu.Unlock()
	if status != nil {
		f.Identity = status()
	}
	if leader != nil {
		f.LeaderSeen = leader()
	}
	if ledger != nil {
		f.Ledger = ledger()
	}
	r := newReport(f, time.Now())
	r.Name, r.Role, r.PID, r.Ready = m.cfg.Name, string(m.cfg.Role), os.Getpid(), ready
	return r
}

// watch follows the verdict: systemd shows it, and the log has its turns once the node is up. It also feeds systemd's
// watchdog, as long as judging works, which takes the locks of identity and raft: so a process that stands still is
// restarted. A node that is merely unhealthy is not, since a restart mends neither certificate nor quorum.
func (m *Monitor) watch() {
	every := watchEvery
	dog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.cfg.Log.Warn("systemd's watchdog is not fed", "err", err)
	}
	if dog > 0 {
		every = min(every, dog/2)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	said, healthy := "", true
	for {
		r := m.Report()
		v := r.Verdict()
		if text := m.status(); text != said {
			said = text
			m.tell(text)
		}
		if r.Ready && v.Healthy != healthy {
			if healthy = v.Healthy; healthy {
				m.cfg.Log.Info("the node is healthy again", "until", v.Until)
			} else {
				m.cfg.Log.Warn("the node is not healthy", "reason", v.Reason, "remedy", v.Remedy)
			}
		}
		if dog > 0 {
			m.tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-m.quit:
			return
		case <-tick.C:
		}
	}
}

// status is one line whatever others' words are in it: each line is a command to systemd.
func (m *Monitor) status() string {
	return "STATUS=" + text.Printable(m.Report().Verdict().Text(), ' ')
}

// tell sends a state to systemd, if it started this process.
func (m *Monitor) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.cfg.Log.Debug("systemd does not listen", "err", err)
	}
}
