package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/swarmd/swarmd/internal/round"
)

// maxHeld is how many models a report lists.
const maxHeld = 8

// heldLocked lists the committed models of this run that the node can give out: the newest in memory, then its copies.
func (s *session) heldLocked() []round.Model {
	var all []round.Model
	if s.slots != nil && s.held.Exists() {
		all = append(all, s.held)
	}
	for _, m := range s.copies {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all[:min(len(all), maxHeld)]
}

// lookForCopies notes which models of the contract's run lie on disk. It reads a directory, so it is called off the lock.
func (s *session) lookForCopies(run uint64) {
	dir := s.engine.cfg.ModelDir
	if dir == "" {
		return
	}
	st := store{dir}
	copies := st.list(s.contract, run, s.bytes())
	proofs := st.proofs(s.contract, run, copies)
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.copies = copies
	for _, p := range proofs {
		s.signed.Put(p)
	}
	signal(s.engine.beat)
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
	if s == nil || s.contract != req.Contract || s.run != req.Run || s.method == nil {
		return nil, 0, fmt.Errorf("no session of contract %s, run %d, at %s", req.Contract, req.Run, e.cfg.Peer)
	}
	bytes := s.layout.Bytes()
	if req.State != "" {
		bytes = s.bytes()
	}
	if s.slots == nil || s.held.Digest != req.Digest || req.State != "" && s.held.State != req.State {
		f, err := e.openKept(req, bytes)
		if err != nil {
			return nil, 0, fmt.Errorf("%s holds the model of round %d, not %.16s… of round %d", e.cfg.Peer, s.held.Round, req.Digest, req.Round)
		}
		return f, bytes, nil
	}
	slot := s.slots.Committed()
	return &guarded{engine: e, session: s, model: s.held, r: io.NewSectionReader(slot, 0, bytes)}, bytes, nil
}

// openKept opens a model of at least so many bytes that lies on disk.
func (e *Engine) openKept(req round.Ref, bytes int64) (*kept, error) {
	if e.cfg.ModelDir == "" {
		return nil, errors.New("no models are kept on disk")
	}
	path := store{e.cfg.ModelDir}.find(req)
	if path == "" {
		return nil, fmt.Errorf("model %.16s… is not on disk", req.Digest)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < bytes {
		err = fmt.Errorf("%s is %d bytes, want %d", path, info.Size(), bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &kept{io.NewSectionReader(f, 0, bytes), f}, nil
}

// kept reads the beginning of a file.
type kept struct {
	*io.SectionReader
	f *os.File
}

// Close implements io.Closer.
func (k *kept) Close() error { return k.f.Close() }

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
	if g.session.held != g.model {
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
