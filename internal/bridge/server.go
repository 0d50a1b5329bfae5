package bridge

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

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/merge"
)

// Handler is what the bridge asks of the session engine. Calls may come concurrently. Sync and Close may block until
// their context ends, which it does after the long-poll limit, when the client hangs up and when the server stops.
type Handler interface {
	// Open enrols a session with a model of this layout; defaults are filled in. The bridge has refused a second one before, unless the first one's program is gone.
	Open(ctx context.Context, req wire.OpenRequest, layout *merge.Layout) (OpenResult, error)
	// Sync offers the weights in the local slot and returns the next committed model. It is repeated with the same Seq
	// after a *PendingError or the context's error.
	Sync(ctx context.Context, req wire.SyncRequest) (wire.SyncResponse, error)
	Report(ctx context.Context, req wire.ReportRequest) error
	// Close ends training and returns the final model; it is repeated like Sync. Along with a *PendingError it may
	// return Round and Slot of a newer model.
	Close(ctx context.Context, req wire.CloseRequest) (wire.SyncResponse, error)
	Abort(ctx context.Context, req wire.AbortRequest) error
}

// OpenResult is what a Handler knows of a new session.
type OpenResult struct {
	Session string // id, 1 to 64 bytes
	Local   string // the local slot's name, as Slot.Name gives it
	Peer    string // this node's name
}

// Config says where and for whom a Server serves.
type Config struct {
	// Dir is the bridge directory, an absolute path of its own for each node. Claim or Run makes it, Run removes it.
	Dir string
	// SpillDir takes the weight files when Dir's file system is too full; it is made when it is needed, or by Claim if
	// SpillAs is set. Empty: it is an error then.
	SpillDir string
	// SpillAs is the path by which the program knows SpillDir; empty: the same.
	SpillAs string
	// MaxModel bounds the bytes of the model that a program may declare; 0: only memory and disk do.
	MaxModel int64
	// Owner is the user that the program runs as; nil: the daemon's own.
	Owner   *Owner
	Log     *slog.Logger
	Handler Handler
	// Status returns what GET /v1/status answers, JSON with snake_case keys; its text "waiting" is also shown to a
	// program whose call is pending. It must not block. Nil: an empty object.
	Status func() map[string]any
	// Live reports whether a session that the bridge opened is still open. When it is not, a new one may be opened at
	// once. It must not block. Nil: a session lives until the program closes or aborts it.
	Live func(session string) bool
	// Gone is called when the process has ended whose connection had a session open, whether that session is still open or not. A program
	// that makes one connection per request is not seen to end. Nil: nobody asks.
	Gone func(ctx context.Context, session string)
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
	lock    *os.File // the claimed directory, locked; nil before
	opening bool
	verify  bool         // the program that opens wants sums of large models
	open    *openSession // nil: none
	slots   *Slots       // the newest; nil: none
}

// openSession is what the bridge remembers of the session that a program has open.
type openSession struct {
	id        string
	layout    string // digest
	weight    int
	maxWeight int
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
	if err := cfg.Owner.Check(); err != nil {
		return nil, err
	}
	if cfg.LongPoll <= 0 {
		cfg.LongPoll = defaultLongPoll
	}
	if cfg.Status == nil {
		cfg.Status = func() map[string]any { return map[string]any{} }
	}
	return &Server{cfg: cfg, ready: make(chan struct{}), clients: newClients(cfg.Gone != nil)}, nil
}

// Ready is closed once programs can connect. It stays open if Run fails before.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Dir returns the bridge directory.
func (s *Server) Dir() string { return s.cfg.Dir }

// CreateSlots makes the weight files of a session in the bridge directory, or in the spill directory. See CreateSlots.
func (s *Server) CreateSlots(bytes int64) (*Slots, error) {
	return s.keep(CreateSlots(s.place(), bytes, s.cfg.Log))
}

// OpenSlots opens the weight files that an earlier run of the daemon made. See OpenSlots.
func (s *Server) OpenSlots(bytes int64, local, committed string) (*Slots, error) {
	return s.keep(OpenSlots(s.place(), bytes, local, committed))
}

// keep remembers the newest slots, whose sums answers have.
func (s *Server) keep(slots *Slots, err error) (*Slots, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots = slots
	return slots, nil
}

// sumOf returns the sum of the model in a slot.
func (s *Server) sumOf(slot string) string {
	s.mu.Lock()
	slots := s.slots
	s.mu.Unlock()
	if slots == nil {
		return ""
	}
	return slots.Sum(slot)
}

func (s *Server) place() Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Place{
		Verify: s.verify,
		Dir:    s.cfg.Dir, Spill: s.cfg.SpillDir, SpillAs: s.cfg.SpillAs, Owner: s.cfg.Owner, MaxModel: s.cfg.MaxModel,
	}
}

// Resume makes the bridge know a session that a program opened in an earlier run of the daemon: layout is its digest,
// weight what its syncs have when they name none, maxWeight the largest that they may name. Call it before Run.
func (s *Server) Resume(session, layout string, weight, maxWeight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = &openSession{id: session, layout: layout, weight: weight, maxWeight: maxWeight}
}

// Connected reports whether a program that used the open session is still connected. A program that makes one connection
// per request (curl) is connected only while a request runs.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open != nil && s.clients.present(s.open.id, nil)
}

// Run serves until ctx ends, then removes the directory. It returns nil after ctx ended, and leaves no goroutine behind.
// It may be called once. It claims the directory, weight files of a previous run included, unless Claim has.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Claim(false); err != nil {
		return err
	}
	defer s.Release()
	listener, err := s.listen()
	if err != nil {
		return err
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
	if s.cfg.Gone != nil {
		s.calls.Go(func() { s.watchPrograms(calls) })
	}
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

// listen makes the socket, which only the program's user may connect to.
func (s *Server) listen() (net.Listener, error) {
	path := filepath.Join(s.cfg.Dir, wire.SocketName)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on bridge socket: %w", err)
	}
	if err = os.Chmod(path, 0o600); err == nil {
		err = s.cfg.Owner.own(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("protect bridge socket: %w", err), listener.Close())
	}
	return listener, nil
}
