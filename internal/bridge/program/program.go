// Package program is a small client of the bridge: the original's client reaches its node through it, and it stands in for an ML program in
// benchmarks and tests. It speaks the same HTTP and maps the same files as the Python package does, and knows nothing of the daemon's side.
package program

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// OpenOptions are the terms of a session and the tensors of the model.
type OpenOptions = wire.OpenRequest

// Result is a committed model, as Sync and Close return it.
type Result = wire.SyncResponse

// Error is the daemon's refusal of a call.
type Error struct {
	Status  int    // HTTP
	Reason  string // UPPER_SNAKE
	Message string
	Remedy  string
}

// Error returns the daemon's message and reason.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Reason) }

// Session is an open session. Its methods may be called from one goroutine at a time, Report from any.
type Session struct {
	// Info is the daemon's answer to Open: identifier, offsets, length.
	Info wire.OpenResponse
	// OnWaiting, if set, is called with the daemon's words each time a Sync or Close is still pending.
	OnWaiting func(waiting string)
	// OnNewer, if set, is called when a model was committed while a Close is pending, which Committed then returns. Its error ends Close.
	OnNewer func(Result) error
	// Weight is that of the next Syncs; 0: the one that Open said.
	Weight int

	dir   string
	link  *link
	local []byte
	seq   uint64

	mu        sync.Mutex
	committed []byte // mapped
}

// Open opens a session at the daemon that serves dir and maps the weight files. The caller ends it with Close or Abort,
// and in any case with Release.
func Open(ctx context.Context, dir string, opts OpenOptions) (*Session, error) {
	return Bridge{Dir: dir}.Open(ctx, opts)
}

// Open is the package's Open at this bridge.
func (b Bridge) Open(ctx context.Context, opts OpenOptions) (*Session, error) {
	link, err := b.link()
	if err != nil {
		return nil, err
	}
	s := &Session{dir: b.Dir, link: link}
	if err := s.call(ctx, wire.PathSession, opts, &s.Info); err != nil {
		s.link.close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	if s.local, err = mapFile(s.resolve(s.Info.Local), s.Info.Bytes, true); err != nil {
		return nil, errors.Join(err, s.Abort(ctx, "map weight files"), s.Release())
	}
	return s, nil
}

func (s *Session) resolve(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

// Local returns the program's own weights, mapped shared: what is written here is what Sync offers. It must not be
// written while a Sync runs, nor used after Release.
func (s *Session) Local() []byte { return s.local }

// WriteLocal copies p to the byte offset off of the program's weights.
func (s *Session) WriteLocal(off int64, p []byte) error {
	if off < 0 || off > int64(len(s.local)) || int64(len(p)) > int64(len(s.local))-off {
		return fmt.Errorf("write weights: %d bytes at %d are beyond the model's %d", len(p), off, len(s.local))
	}
	copy(s.local[off:], p)
	return nil
}

// Committed returns the model that the last Sync or Close brought, read-only (writing to it faults); nil before. It is
// valid until the next Sync or Close begins, and not after Release.
func (s *Session) Committed() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed
}

// Sync offers the local weights and blocks until the swarm has committed a model, asking again while it is pending. After
// an error the next Sync repeats the same one. If the round was skipped Committed is what it was.
func (s *Session) Sync(ctx context.Context) (Result, error) {
	res, err := s.poll(ctx, wire.PathSync, wire.SyncRequest{Session: s.Info.Session, Seq: s.seq + 1, Weight: s.Weight})
	if err != nil {
		return Result{}, fmt.Errorf("sync: %w", err)
	}
	s.seq++
	return res, nil
}

// Report tells the daemon what was measured. The session's ID is filled in.
func (s *Session) Report(ctx context.Context, r wire.ReportRequest) error {
	r.Session = s.Info.Session
	if err := s.call(ctx, wire.PathReport, r, &struct{}{}); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Close ends training and blocks until the final model is here, which Committed then returns.
func (s *Session) Close(ctx context.Context) (Result, error) { return s.CloseAs(ctx, "") }

// CloseAs is Close with what the node contributes from here on; empty: as opened.
func (s *Session) CloseAs(ctx context.Context, mode string) (Result, error) {
	res, err := s.poll(ctx, wire.PathClose, wire.CloseRequest{Session: s.Info.Session, Seq: s.seq, Mode: mode})
	if err != nil {
		return Result{}, fmt.Errorf("close session: %w", err)
	}
	return res, nil
}

// Abort tells the daemon that the program gives up.
func (s *Session) Abort(ctx context.Context, reason string) error {
	if err := s.call(ctx, wire.PathAbort, wire.AbortRequest{Session: s.Info.Session, Reason: reason}, &struct{}{}); err != nil {
		return fmt.Errorf("abort session: %w", err)
	}
	return nil
}

// Release unmaps the files and closes the connections. The session itself stays as it is.
func (s *Session) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(unmap(s.local), unmap(s.committed))
	s.local, s.committed = nil, nil
	s.link.close()
	return err
}

// Drop lets go of the model that Committed returned: the daemon need not replace a file that nobody has open.
func (s *Session) Drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := unmap(s.committed)
	s.committed = nil
	return err
}

func (s *Session) poll(ctx context.Context, path string, body any) (Result, error) {
	var newest uint64
	for {
		var res Result
		if err := s.call(ctx, path, body, &res); err != nil {
			return Result{}, err
		}
		if !res.Pending && res.Skipped {
			return res, nil
		}
		if !res.Pending {
			return res, s.take(res)
		}
		if s.OnWaiting != nil {
			s.OnWaiting(res.Waiting)
		}
		if s.OnNewer != nil && path == wire.PathClose && res.Slot != "" && res.Round > newest {
			newest = res.Round
			if err := s.take(res); err != nil {
				return Result{}, err
			}
			if err := s.OnNewer(res); err != nil {
				return Result{}, err
			}
		}
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
	}
}

// take makes a slot the committed one, and lets go of the one before: the daemon need not replace a file that nobody has open.
func (s *Session) take(res Result) error {
	m, err := mapFile(s.resolve(res.Slot), s.Info.Bytes, false)
	if err != nil {
		return err
	}
	if res.SHA256 != "" && sumOf(m) != res.SHA256 {
		return errors.Join(fmt.Errorf("slot %s does not hold the model of round %d: its SHA-256 is not %s", res.Slot, res.Round, res.SHA256), unmap(m))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = unmap(s.committed)
	s.committed = m
	return err
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (s *Session) call(ctx context.Context, path string, body, into any) error {
	return s.link.call(ctx, path, body, into)
}
