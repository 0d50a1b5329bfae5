package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// Handler is what the bridge asks of the session engine. Calls may come concurrently. Sync and Close may block until
// their context ends, which it does after the long-poll limit, when the client hangs up and when the server stops.
type Handler interface {
	// Open enrols a session. The bridge has refused a second one before, unless the first one's program is gone.
	Open(ctx context.Context, req OpenRequest) (OpenResult, error)
	// Sync offers the weights in the local slot and returns the next committed model. It is repeated with the same Seq
	// after a *PendingError or the context's error.
	Sync(ctx context.Context, req wire.SyncRequest) (SyncResult, error)
	Report(ctx context.Context, req wire.ReportRequest) error
	// Close ends training and returns the final model; it is repeated like Sync. Along with a *PendingError it may
	// return Round and Slot of a newer model.
	Close(ctx context.Context, req wire.CloseRequest) (SyncResult, error)
	Abort(ctx context.Context, req wire.AbortRequest) error
}

// OpenResult is what a Handler knows of a new session.
type OpenResult struct {
	Session string // id, 1 to 64 bytes
	Local   string // the local slot's name, as Slot.Name gives it
	Peer    string // this node's name
}

// SyncResult is a committed model for the program.
type SyncResult struct {
	Round        uint64
	Slot         string // the slot's name, as Slot.Name gives it
	Interval     int    // batches until the next Sync
	TrainingOver bool
	Contributed  bool
	Digest       string // hex
	Participants []string
	Warnings     []string
}

// Config says where and for whom a Server serves.
type Config struct {
	// Dir is the bridge directory, an absolute path of its own for each node. Run makes it and removes it.
	Dir string
	// SpillDir takes the weight files when Dir's file system is too full; empty: it is an error then.
	SpillDir string
	Log      *slog.Logger
	Handler  Handler
	// Status returns what GET /v1/status answers, JSON with snake_case keys; its text "waiting" is also shown to a
	// program whose call is pending. It must not block. Nil: an empty object.
	Status func() map[string]any
	// Live tells whether a session that the bridge opened is still open. When it is not, a new one may be opened at
	// once. It must not block. Nil: a session lives until the program closes or aborts it.
	Live func(session string) bool
	// LongPoll bounds how long Sync and Close block before the program is told to ask again; 0: 20 s.
	LongPoll time.Duration
}

const (
	defaultLongPoll = 20 * time.Second
	readLimit       = 30 * time.Second // for a request's body
	writeLimit      = 30 * time.Second // for an answer
	drainLimit      = 2 * time.Second  // for answers under way when the server stops
	maxClients      = 64               // connections
	maxSocketPath   = 107              // sockaddr_un's 108 bytes less the final zero
)

// Server serves one node's bridge directory.
type Server struct {
	cfg     Config
	ready   chan struct{}
	clients *clients
	calls   sync.WaitGroup

	mu      sync.Mutex
	opening bool
	open    *openSession // nil: none
}

// openSession is what the bridge remembers of the session that a program has open.
type openSession struct {
	id     string
	layout string // digest
	weight int
}

// NewServer checks cfg. It touches no file.
func NewServer(cfg Config) (*Server, error) {
	if cfg.Handler == nil || cfg.Log == nil {
		return nil, errors.New("bridge needs a handler and a log")
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("bridge directory %q is not an absolute path: name it with --bridge-dir", cfg.Dir)
	}
	if p := filepath.Join(cfg.Dir, wire.SocketName); len(p) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, unix sockets allow %d: name a shorter directory with --bridge-dir", p, len(p), maxSocketPath)
	}
	if cfg.LongPoll <= 0 {
		cfg.LongPoll = defaultLongPoll
	}
	if cfg.Status == nil {
		cfg.Status = func() map[string]any { return map[string]any{} }
	}
	return &Server{cfg: cfg, ready: make(chan struct{}), clients: newClients()}, nil
}

// Ready is closed once programs can connect. It stays open if Run fails before.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Dir returns the bridge directory.
func (s *Server) Dir() string { return s.cfg.Dir }

// CreateSlots makes the weight files of a session in the bridge directory, or in the spill directory. See CreateSlots.
func (s *Server) CreateSlots(bytes int64) (*Slots, error) {
	return CreateSlots(s.cfg.Dir, s.cfg.SpillDir, bytes, s.cfg.Log)
}

// Connected tells whether a program that used the open session is still connected. A program that makes one connection
// per request (curl) is connected only while a request runs.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open != nil && s.clients.present(s.open.id, nil)
}

// Run serves until ctx ends, then removes the directory. It returns nil after ctx ended, and leaves no goroutine behind.
// It may be called once.
func (s *Server) Run(ctx context.Context) error {
	lock, err := makeDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	defer s.removeDir(lock)
	listener, err := net.Listen("unix", filepath.Join(s.cfg.Dir, wire.SocketName))
	if err != nil {
		return fmt.Errorf("listen on bridge socket: %w", err)
	}
	if err := os.Chmod(filepath.Join(s.cfg.Dir, wire.SocketName), 0o600); err != nil {
		return errors.Join(fmt.Errorf("protect bridge socket: %w", err), listener.Close())
	}
	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s.routes(), ReadHeaderTimeout: readLimit, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return calls },
		ConnContext: s.clients.context, ConnState: s.clients.state,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(&limitListener{Listener: listener, clients: s.clients}) }()
	close(s.ready)
	s.cfg.Log.Debug("bridge is ready", "dir", s.cfg.Dir)

	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil
	}
	// Blocking calls end with their context; what remains is writing their answers.
	cancel()
	drain, cancelDrain := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancelDrain()
	if server.Shutdown(drain) != nil {
		_ = server.Close() // a client that does not read its answer
	}
	_ = <-served // http.ErrServerClosed
	s.calls.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve bridge socket: %w", err)
}

// makeDir makes the directory, or takes over what a dead daemon left, and returns it locked against a second daemon.
func makeDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make bridge directory: %w: name another one with --bridge-dir", err)
	}
	if err := checkParent(filepath.Dir(dir)); err != nil {
		return nil, fmt.Errorf("take bridge directory %s: %w", dir, err)
	}
	// A link could lead a daemon of another user's choice of directory.
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open bridge directory: %w", err)
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat)
	switch {
	case err != nil:
	case int(stat.Uid) != os.Geteuid():
		err = fmt.Errorf("it belongs to user %d: name another one with --bridge-dir", stat.Uid)
	case unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil:
		err = errors.New("another daemon uses it: name another one with --bridge-dir")
	default:
		err = f.Chmod(0o700)
	}
	if err == nil {
		err = removeFiles(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take bridge directory %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// checkParent refuses a directory whose owner could put another one in the place of ours while it is used: in
// /dev/shm everybody may have made it before us, and programs find socket and weights by path.
func checkParent(parent string) error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} { // the link itself, and where it leads
		info, err := look(parent)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, who could replace what lies in it: name another one with --bridge-dir", parent, st.Uid)
		}
		if info.IsDir() && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s may be written by everybody: run chmod o-w %s, or name another one with --bridge-dir", parent, parent)
		}
	}
	return nil
}

// removeFiles removes the bridge's own files only: the user may have named a directory that holds others.
func removeFiles(dir string) error {
	var errs []error
	for _, name := range []string{wire.SocketName, wire.LocalName, wire.Merged0Name, wire.Merged1Name} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Server) removeDir(lock *os.File) {
	err := removeFiles(s.cfg.Dir)
	if rmErr := os.Remove(s.cfg.Dir); rmErr != nil && !errors.Is(rmErr, unix.ENOTEMPTY) && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		s.cfg.Log.Warn("bridge directory stays behind", "dir", s.cfg.Dir, "err", err)
	}
}
