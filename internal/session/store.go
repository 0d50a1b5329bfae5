package session

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// settle is how long the first model of a session must last before it is copied, unless it is final. Afterwards copying
// takes a tenth of the time at most: rounds that follow each other faster than disks write would only fight the exchange
// for memory and processors.
const settle = 2 * time.Second

// keptModels is how many committed models of a contract lie on disk at most.
const keptModels = 3

// copyBuffer is the size of reads and writes, in bytes.
const copyBuffer = 1 << 20

// store keeps committed models as files <dir>/<contract>/<run>-<round>-<digest>.model, the flat vector as it is. They
// are for late joiners, `get model` and restarts; the program never sees them.
type store struct{ dir string }

func (st store) path(contract string, run uint64, m model) string {
	return filepath.Join(st.dir, contract, fmt.Sprintf("%d-%d-%s.model", run, m.round, m.digest))
}

// write copies a model to disk under a temporary name first, so that a file with the right name is whole.
func (st store) write(path string, r io.Reader, sync bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".model-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, r, make([]byte, copyBuffer)); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// prune removes all but the newest models of a contract.
func (st store) prune(contract string) error {
	names, err := filepath.Glob(filepath.Join(st.dir, contract, "*.model"))
	if err != nil || len(names) <= keptModels {
		return err
	}
	slices.SortFunc(names, func(a, b string) int {
		ar, an := order(a)
		br, bn := order(b)
		return cmp.Or(cmp.Compare(br, ar), cmp.Compare(bn, an))
	})
	var errs []error
	for _, name := range names[keptModels:] {
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// order reads run and round from a model's file name.
func order(path string) (run, round uint64) {
	_, _ = fmt.Sscanf(strings.TrimSuffix(filepath.Base(path), ".model"), "%d-%d-", &run, &round)
	return run, round
}

// keepLocked has the held model copied to disk: one copy at a time, and a model that was replaced meanwhile is skipped.
func (s *session) keepLocked() {
	if s.engine.cfg.ModelDir == "" || s.keeping {
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
	if dir == "" || s.slots == nil || s.held.round == 0 || s.kept == s.held {
		return
	}
	st := store{dir}
	err := st.write(st.path(s.contract, s.run, s.held), io.NewSectionReader(s.slots.Committed(), 0, s.layout.Bytes()), false)
	if err == nil {
		err = st.prune(s.contract)
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
	r := &guarded{engine: e, session: s, model: m, r: io.NewSectionReader(s.slots.Committed(), 0, s.layout.Bytes())}
	e.mu.Unlock()
	st := store{e.cfg.ModelDir}
	err := st.write(st.path(s.contract, s.run, m), r, final)
	if err == nil {
		err = st.prune(s.contract)
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
