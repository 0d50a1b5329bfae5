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

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/proof"
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

func (st store) path(m round.Ref) string {
	name := fmt.Sprintf("%d-%d-%s", m.Run, m.Round, m.Digest)
	if m.State != "" {
		name += "-" + m.State
	}
	return filepath.Join(st.dir, m.Contract, name+".model")
}

// parseModelName reads a file's name; false if it is none of ours.
func parseModelName(contract, path string) (m round.Ref, ok bool) {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), ".model"), "-")
	if len(parts) != 3 && len(parts) != 4 {
		return round.Ref{}, false
	}
	run, runErr := strconv.ParseUint(parts[0], 10, 64)
	n, roundErr := strconv.ParseUint(parts[1], 10, 64)
	m = round.Ref{Contract: contract, Run: run, Model: round.Model{Round: n, Digest: parts[2]}}
	if len(parts) == 4 {
		m.State = parts[3]
	}
	return m, errors.Join(runErr, roundErr, m.Check()) == nil && (len(parts) == 3 || m.State != "")
}

// models returns the files of a contract, newest first.
func (st store) models(contract string) []string {
	names, err := filepath.Glob(filepath.Join(st.dir, contract, "*.model"))
	if err != nil { // only for a bad pattern
		return nil
	}
	slices.SortFunc(names, func(a, b string) int {
		x, _ := parseModelName(contract, a)
		y, _ := parseModelName(contract, b)
		return cmp.Or(cmp.Compare(y.Run, x.Run), cmp.Compare(y.Round, x.Round), cmp.Compare(a, b))
	})
	return names
}

// list returns the models of a run that lie on disk with so many bytes, newest first.
func (st store) list(contract string, run uint64, bytes int64) []round.Model {
	var out []round.Model
	for _, name := range st.models(contract) {
		m, ok := parseModelName(contract, name)
		info, err := os.Stat(name)
		if ok && m.Run == run && err == nil && info.Size() == bytes {
			out = append(out, m.Model)
		}
	}
	return out
}

// proofs returns what this node has signed of models that lie on disk. A file that is not whole proves nothing.
func (st store) proofs(contract string, run uint64, of []round.Model) (out []*round.Proof) {
	for _, m := range of {
		if p, err := proof.Read(proof.Path(st.path(round.Ref{Contract: contract, Run: run, Model: m})), run); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// find returns the file of a model, whichever round it was committed in, empty if there is none.
func (st store) find(want round.Ref) string {
	for _, name := range st.models(want.Contract) {
		m, ok := parseModelName(want.Contract, name)
		if ok && m.Run == want.Run && m.Digest == want.Digest && (want.State == "" || m.State == want.State) {
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
	if s.engine.cfg.ModelDir == "" || s.keeping || !s.held.Exists() {
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
	if dir == "" || s.slots == nil || !s.held.Exists() || s.kept == s.held {
		return
	}
	st := store{dir}
	err := proof.WriteFile(st.path(s.refLocked(s.held)), io.NewSectionReader(s.slots.Committed(), 0, s.bytes()), false)
	if err == nil {
		err = errors.Join(proof.Write(proof.Path(st.path(s.refLocked(s.held))), s.signed.Of(s.held)), st.prune(s.contract))
	}
	if err != nil {
		s.engine.cfg.Log.Warn("keep the committed model on disk", "dir", dir, "round", s.held.Round, "err", err)
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
func (s *session) finalLocked() bool { return s.view.Over && s.held == s.view.Model() }

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
	signed, st := s.signed.Of(m), store{e.cfg.ModelDir}
	path := st.path(s.refLocked(m))
	e.mu.Unlock()
	err := proof.WriteFile(path, r, final)
	if err == nil {
		err = errors.Join(proof.Write(proof.Path(path), signed), st.prune(s.contract))
		s.lookForCopies(s.run)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && s.held == m {
		e.cfg.Log.Error("keep the committed model on disk; free space, it is still served from memory", "dir", e.cfg.ModelDir, "round", m.Round, "err", err)
	}
	if s.held == m {
		s.kept, s.keptFinal = m, final // tried: a full disk must not keep Close waiting for ever
		s.notifyLocked()
	}
	return true
}
