package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/merge"
)

// maxHeld is how many models a report lists.
const maxHeld = 8

// heldLocked lists the committed models of this run that the node can give out: the newest in memory, then its copies.
func (s *session) heldLocked() []*swarmv1.HeldModel {
	var all []model
	if s.slots != nil && s.held.exists() {
		all = append(all, s.held)
	}
	for _, m := range s.copies {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	var out []*swarmv1.HeldModel
	for _, m := range all[:min(len(all), maxHeld)] {
		out = append(out, &swarmv1.HeldModel{Round: m.round, Digest: m.digest, StateDigest: m.state})
	}
	return out
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
func (e *Engine) OpenModel(req FetchRequest) (io.ReadSeekCloser, int64, error) {
	if err := req.check(); err != nil { // the digests become part of a file name
		return nil, 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.current
	if s == nil || s.contract != req.Contract || s.run != req.Run || s.method == nil {
		return nil, 0, fmt.Errorf("no session of contract %s, run %d, at %s", req.Contract, req.Run, e.cfg.Peer)
	}
	req.Bytes = s.layout.Bytes()
	if req.State != "" {
		req.Bytes = s.bytes()
	}
	if s.slots == nil || s.held.digest != req.Digest || req.State != "" && s.held.state != req.State {
		f, err := e.openKept(req)
		if err != nil {
			return nil, 0, fmt.Errorf("%s holds the model of round %d, not %.16s… of round %d", e.cfg.Peer, s.held.round, req.Digest, req.Round)
		}
		return f, req.Bytes, nil
	}
	slot := s.slots.Committed()
	return &guarded{engine: e, session: s, model: s.held, r: io.NewSectionReader(slot, 0, req.Bytes)}, req.Bytes, nil
}

func (req FetchRequest) check() error {
	_, err := merge.ParseDigest(req.Digest)
	if err == nil && req.State != "" {
		_, err = merge.ParseDigest(req.State)
	}
	return err
}

// openKept opens a model of at least req.Bytes that lies on disk.
func (e *Engine) openKept(req FetchRequest) (*kept, error) {
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
	if err == nil && info.Size() < req.Bytes {
		err = fmt.Errorf("%s is %d bytes, want %d", path, info.Size(), req.Bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &kept{io.NewSectionReader(f, 0, req.Bytes), f}, nil
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
	model   model
	r       *io.SectionReader
}

// Read implements io.Reader.
func (g *guarded) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	g.engine.mu.Lock()
	defer g.engine.mu.Unlock()
	if g.session.held != g.model {
		return 0, fmt.Errorf("model of round %d was replaced while it was read", g.model.round)
	}
	return n, err
}

// Size is that of the model in bytes, with the state behind it.
func (g *guarded) Size() int64 { return g.r.Size() }

// Seek implements io.Seeker.
func (g *guarded) Seek(offset int64, whence int) (int64, error) { return g.r.Seek(offset, whence) }

// Close implements io.Closer; there is nothing to release.
func (g *guarded) Close() error { return nil }
