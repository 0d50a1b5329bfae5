package session

import (
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// inventory is what a session has of the committed model, and what it does to have the newest.
type inventory struct {
	s         *session
	form      models.Form // the method is nil until the contract is known
	slots     models.Slots
	base      round.Model    // what the program's training started from
	held      round.Model    // what the committed slot holds
	leaves    []merge.Digest // of held
	turn      uint64         // of the slots
	heldSlot  string
	copies    copies
	fetching  bool
	fetchErr  error // why the last fetch of the committed model failed; nil once it is held
	fetchLog  fetchLog
	lostSince time.Time // since when nobody alive holds the final model
}

// OpenModel returns a committed model that this node holds, for a node that fetches it: the model alone, or with the state
// directly behind it if the request names one. The reader fails when the model is replaced under it: the fetcher checks the
// digests in any case.
func (e *Engine) OpenModel(req round.Ref) (io.ReadSeekCloser, int64, error) {
	if err := req.Check(); err != nil { // the digests become part of a file name
		return nil, 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.current
	if s == nil || s.contract != req.Contract || s.run != req.Run || s.model.form.Method == nil {
		return nil, 0, fmt.Errorf("no session of contract %s, run %d, at %s", req.Contract, req.Run, e.cfg.Peer)
	}
	bytes := s.model.form.Layout.Bytes()
	if req.State != "" {
		bytes = s.model.form.Bytes()
	}
	if s.model.slots == nil || s.model.held.Digest != req.Digest || req.State != "" && s.model.held.State != req.State {
		f, err := e.store().Open(req, bytes)
		if err != nil {
			return nil, 0, fmt.Errorf("%s holds the model of round %d, not %.16s… of round %d", e.cfg.Peer, s.model.held.Round, req.Digest, req.Round)
		}
		return f, bytes, nil
	}
	slot := s.model.slots.Committed()
	return &guarded{engine: e, session: s, model: s.model.held, r: io.NewSectionReader(slot, 0, bytes)}, bytes, nil
}

// guarded reads a committed slot as long as it holds the same model.
type guarded struct {
	engine  *Engine
	session *session
	model   round.Model
	r       *io.SectionReader
}

// Read implements io.Reader.
func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	g.engine.mu.Lock()
	defer g.engine.mu.Unlock()
	if g.session.model.held != g.model {
		return 0, fmt.Errorf("model of round %d was replaced while it was read", g.model.Round)
	}
	return n, err
}

// Size is that of the model in bytes, with the state behind it.
func (g *guarded) Size() int64 { return g.r.Size() }

// Seek implements io.Seeker.
func (g *guarded) Seek(offset int64, whence int) (int64, error) { return g.r.Seek(offset, whence) }

// Close implements io.Closer; there is nothing to release.
func (g *guarded) Close() error { return nil }
