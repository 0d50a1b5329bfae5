package session

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// canonical returns the one spelling of a program's method, empty if it leaves the choice to the contract.
func canonical(method string) (string, error) {
	if strings.TrimSpace(method) == "" {
		return "", nil
	}
	m, err := merge.ParseMethod(method)
	if err != nil {
		return "", &Error{"BAD_METHOD", err.Error(), "mend the merge method or its parameters in the program, or leave them to the contract"}
	}
	return m.String(), nil
}

// methodOf is the method of a session's contract: its terms say so, else what the session asked for, else the rules.
func methodOf(open *round.Open, v *round.View) (*merge.Method, error) {
	for _, text := range []string{v.Terms.Method, open.Terms.Method, v.Rules.Method} {
		if text != "" {
			return merge.ParseMethod(text)
		}
	}
	return merge.ParseMethod("mean")
}

// equipFor equips the session for the method of its contract.
func (inv *inventory) equipFor(v *round.View) error {
	s := inv.s
	m, err := methodOf(s.open, v)
	if err != nil {
		return &Error{"BAD_METHOD", err.Error(), "update this node to the version of the others"}
	}
	return inv.equip(m)
}

// equip makes what the method needs beside the weight files, and says so. It is an error that names the place and the bytes
// if there is no room.
func (inv *inventory) equip(m *merge.Method) error {
	s := inv.s
	e := s.engine
	inv.form.Method = m
	state := m.StateBytes(inv.form.Layout)
	if state > 0 {
		slots, err := e.scratch().NewStateful(inv.slots, s.id, inv.form.Layout.Bytes(), state)
		if err != nil {
			return noRoom(err, m, fmt.Sprintf("two files of %s for its optimiser's state", inBytes(state)))
		}
		inv.slots = slots
	}
	if m.Distances() {
		// An owner spools what all contributors have of its shard: about one model, however many they are.
		if err := e.scratch().Fits(inv.form.Layout.Bytes()); err != nil {
			return noRoom(err, m, "about "+inBytes(inv.form.Layout.Bytes())+" of scratch in each round")
		}
	}
	if state > 0 || m.Distances() {
		e.cfg.Log.Info("the method needs more than the weight files", "contract", s.contract, "method", m.String(),
			"state_bytes", 2*state, "scratch_bytes", scratchBytes(m, inv.form.Layout))
	}
	return nil
}

func scratchBytes(m *merge.Method, l *merge.Layout) int64 {
	if m.Distances() {
		return l.Bytes()
	}
	return 0
}

func noRoom(err error, m *merge.Method, what string) error {
	return &Error{
		"NO_SPACE", fmt.Sprintf("method %s needs %s: %v", m, what, err),
		"free space there, or choose a method that streams, such as mean or coordmedian",
	}
}

// scratch is where files are made that only the daemon sees.
func (e *Engine) scratch() models.Scratch {
	return models.Scratch{Dir: cmp.Or(e.cfg.ScratchDir, os.TempDir()), Spool: e.cfg.SpoolDir}
}

// store keeps committed models on disk.
func (e *Engine) store() models.Store { return models.Store{Dir: e.cfg.ModelDir} }

// spool makes the scratch file of one attempt.
func (inv *inventory) spool(bytes int64) (Spool, error) {
	s := inv.s
	f, err := s.engine.scratch().File(bytes)
	if err != nil { // never a nil *os.File in an interface
		return nil, noRoom(err, inv.form.Method, inBytes(bytes)+" of scratch")
	}
	return f, nil
}

// stash makes a scratch file that costs only what is written.
func (inv *inventory) stash(bytes int64) (Spool, error) {
	s := inv.s
	f, err := s.engine.scratch().Sparse(bytes)
	if err != nil { // never a nil *os.File in an interface
		return nil, err
	}
	return f, nil
}

// inBytes is a size for people.
func inBytes(n int64) string {
	const kib = 1 << 10
	f, unit := float64(n), "bytes"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < kib {
			break
		}
		f, unit = f/kib, next
	}
	if unit == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// repair has the committed model fetched again if the program has changed it, after an attempt that failed at this node.
func (inv *inventory) repair(had round.Model) {
	s := inv.s
	slot := inv.slots.Committed()
	_, err := inv.form.Verify(slot, had)
	if err == nil {
		return
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if inv.held != had || s.ended() {
		return
	}
	s.engine.cfg.Log.Warn("the committed model in the weight file was changed; fetching it again", "contract", s.contract, "round", had.Round, "err", err)
	inv.held, inv.leaves = round.Model{}, nil
}
