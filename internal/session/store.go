package session

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session/proof"
	"github.com/swarmd/swarmd/merge"
)

// settle is how long the first model of a session must last before it is copied, unless it is final. Afterwards copying
// takes a tenth of the time at most: rounds that follow each other faster than disks write would only fight the exchange
// for memory and processors.
const settle = 2 * time.Second

// keptModels is how many committed models of a contract lie on disk at most.
const keptModels = 3

// copyBuffer is the size of reads and writes, in bytes.
const copyBuffer = 1 << 20

// store keeps committed models as files <dir>/<contract>/<run>-<round>-<digest>.model, the flat vector as it is, and behind
// it the optimiser's state if the method has one: then its digest is part of the name too. They are for late joiners,
// `get model` and restarts; the program never sees them.
type store struct{ dir string }

func (st store) path(contract string, run uint64, m model) string {
	name := fmt.Sprintf("%d-%d-%s", run, m.round, m.digest)
	if m.state != "" {
		name += "-" + m.state
	}
	return filepath.Join(st.dir, contract, name+".model")
}

// parseModelName reads a file's name; false if it is none of ours.
func parseModelName(path string) (run uint64, m model, ok bool) {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".model"), "-")
	if len(parts) != 3 && len(parts) != 4 {
		return 0, model{}, false
	}
	run, runErr := strconv.ParseUint(parts[0], 10, 64)
	round, roundErr := strconv.ParseUint(parts[1], 10, 64)
	m = model{round: round, digest: parts[2]}
	_, digestErr := merge.ParseDigest(m.digest)
	if len(parts) == 4 {
		m.state = parts[3]
		_, err := merge.ParseDigest(m.state)
		digestErr = errors.Join(digestErr, err)
	}
	return run, m, errors.Join(runErr, roundErr, digestErr) == nil
}

// models returns the files of a contract, newest first.
func (st store) models(contract string) []string {
	names, err := filepath.Glob(filepath.Join(st.dir, contract, "*.model"))
	if err != nil { // only for a bad pattern
		return nil
	}
	slices.SortFunc(names, func(a, b string) int {
		ar, am, _ := parseModelName(a)
		br, bm, _ := parseModelName(b)
		return cmp.Or(cmp.Compare(br, ar), cmp.Compare(bm.round, am.round), cmp.Compare(a, b))
	})
	return names
}

// list returns the models of a run that lie on disk with so many bytes, newest first.
func (st store) list(contract string, run uint64, bytes int64) []model {
	var out []model
	for _, name := range st.models(contract) {
		of, m, ok := parseModelName(name)
		info, err := os.Stat(name)
		if ok && of == run && err == nil && info.Size() == bytes {
			out = append(out, m)
		}
	}
	return out
}

// proofs returns what this node has signed of models that lie on disk. A file that is not whole proves nothing.
func (st store) proofs(contract string, run uint64, of []model) (out []*swarmv1.RoundProof) {
	for _, m := range of {
		if p, err := proof.Read(proof.Path(st.path(contract, run, m)), run); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// find returns the file of a model, whichever round it was committed in, empty if there is none.
func (st store) find(req FetchRequest) string {
	for _, name := range st.models(req.Contract) {
		run, m, ok := parseModelName(name)
		if ok && run == req.Run && m.digest == req.Digest && (req.State == "" || m.state == req.State) {
			return name
		}
	}
	return ""
}

// prune removes all but the newest models of a contract.
func (st store) prune(contract string) error {
	names := st.models(contract)
	var errs []error
	for _, name := range names[min(len(names), keptModels):] {
		errs = append(errs, os.Remove(name))
		if err := os.Remove(proof.Path(name)); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keepLocked has the held model copied to disk: one copy at a time, and a model that was replaced meanwhile is skipped.
func (s *session) keepLocked() {
	if s.engine.cfg.ModelDir == "" || s.keeping || !s.held.exists() {
		return
	}
	s.keeping = true
	s.spawnLocked(func() {
		pause := settle
		for s.settled(pause) {
			began := time.Now()
			if !s.keepOne() {
				return
			}
			pause = max(settle, 10*time.Since(began))
		}
	})
}

// keepLast copies the held model to disk at a session's end, if its newest copy is older, so that the node's next session can
// start from it even if no other node holds it any more. Nothing else uses the session's files then.
func (s *session) keepLast() {
	dir := s.engine.cfg.ModelDir
	if dir == "" || s.slots == nil || !s.held.exists() || s.kept == s.held {
		return
	}
	st := store{dir}
	err := proof.WriteFile(st.path(s.contract, s.run, s.held), io.NewSectionReader(s.slots.Committed(), 0, s.bytes()), false)
	if err == nil {
		err = errors.Join(proof.Write(proof.Path(st.path(s.contract, s.run, s.held)), s.signed.Of(s.held.round, s.held.digest)), st.prune(s.contract))
	}
	if err != nil {
		s.engine.cfg.Log.Warn("keep the committed model on disk", "dir", dir, "round", s.held.round, "err", err)
	}
}

// settled waits for the pause, or until the held model is final. It is false when the session ended first.
func (s *session) settled(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		s.engine.mu.Lock()
		final, changed := s.finalLocked(), s.changed
		s.engine.mu.Unlock()
		if final && s.ctx.Err() == nil {
			return true
		}
		select {
		case <-s.ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-changed:
		}
	}
}

// finalLocked tells whether the held model is the contract's final one. A view can be ahead of what is held.
func (s *session) finalLocked() bool { return s.view.GetOver() && s.held == s.committedLocked() }

// keepOne copies what is held now and tells whether there is more to do.
func (s *session) keepOne() bool {
	e := s.engine
	e.mu.Lock()
	m, final := s.held, s.finalLocked()
	if (s.kept == m && s.keptFinal == final) || s.slots == nil || s.ctx.Err() != nil {
		s.keeping = false
		e.mu.Unlock()
		return false
	}
	r := &guarded{engine: e, session: s, model: m, r: io.NewSectionReader(s.slots.Committed(), 0, s.bytes())}
	signed := s.signed.Of(m.round, m.digest)
	e.mu.Unlock()
	st := store{e.cfg.ModelDir}
	err := proof.WriteFile(st.path(s.contract, s.run, m), r, final)
	if err == nil {
		err = errors.Join(proof.Write(proof.Path(st.path(s.contract, s.run, m)), signed), st.prune(s.contract))
		s.lookForCopies(s.run)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && s.held == m {
		e.cfg.Log.Error("keep the committed model on disk; free space, it is still served from memory", "dir", e.cfg.ModelDir, "round", m.round, "err", err)
	}
	if s.held == m {
		s.kept, s.keptFinal = m, final // tried: a full disk must not keep Close waiting for ever
		s.notifyLocked()
	}
	return true
}
