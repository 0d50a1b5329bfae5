// Package models keeps the models of a node: copies of committed ones on disk, the weight files of a session with the optimiser's state
// behind them, and files that nobody else sees.
package models

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

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/proof"
)

// keptModels is how many committed models of a contract lie on disk at most.
const keptModels = 3

// Store keeps committed models as files <dir>/<contract>/<run>-<round>-<digest>.model, the flat vector as it is, and behind
// it the optimiser's state if the method has one: then its digest is part of the name too. They are for late joiners,
// `get model` and restarts; the program never sees them.
type Store struct {
	Dir string // empty: none are kept
}

func (st Store) path(m round.Ref) string {
	name := fmt.Sprintf("%d-%d-%s", m.Run, m.Round, m.Digest)
	if m.State != "" {
		name += "-" + m.State
	}
	return filepath.Join(st.Dir, m.Contract, name+".model")
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

// files returns those of a contract, newest first.
func (st Store) files(contract string) []string {
	names, err := filepath.Glob(filepath.Join(st.Dir, contract, "*.model"))
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

// List returns the models of a contract's run that lie on disk with so many bytes, newest first, and what this node has signed of them. A
// proof that is not whole proves nothing.
func (st Store) List(contract string, run uint64, bytes int64) (out []round.Model, proofs []*round.Proof) {
	for _, name := range st.files(contract) {
		m, ok := parseModelName(contract, name)
		info, err := os.Stat(name)
		if !ok || m.Run != run || err != nil || info.Size() != bytes {
			continue
		}
		out = append(out, m.Model)
		if p, err := proof.Read(proof.Path(name), run); err == nil {
			proofs = append(proofs, p)
		}
	}
	return out, proofs
}

// find returns the file of a model, whichever round it was committed in, empty if there is none.
func (st Store) find(want round.Ref) string {
	for _, name := range st.files(want.Contract) {
		m, ok := parseModelName(want.Contract, name)
		if ok && m.Run == want.Run && m.Digest == want.Digest && (want.State == "" || m.State == want.State) {
			return name
		}
	}
	return ""
}

// Keep copies a model to disk, with what this node has signed of it if that is not nil, and removes all but the newest ones of the contract.
// With sync it is there when the machine dies. The reader has the flat vector, and behind it the state.
func (st Store) Keep(m round.Ref, r io.Reader, signed *round.Proof, sync bool) error {
	path := st.path(m)
	if err := proof.WriteFile(path, r, sync); err != nil {
		return err
	}
	return errors.Join(proof.Write(proof.Path(path), signed), st.prune(m.Contract))
}

// Open returns a model of at least so many bytes that lies on disk.
func (st Store) Open(m round.Ref, bytes int64) (*Copy, error) {
	if st.Dir == "" {
		return nil, errors.New("no models are kept on disk")
	}
	path := st.find(m)
	if path == "" {
		return nil, fmt.Errorf("model %.16s… is not on disk", m.Digest)
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
	return &Copy{io.NewSectionReader(f, 0, bytes), f}, nil
}

// Copy reads a model that lies on disk. The caller closes it.
type Copy struct {
	*io.SectionReader
	f *os.File
}

// Close implements io.Closer.
func (c *Copy) Close() error { return c.f.Close() }

// prune removes all but the newest models of a contract.
func (st Store) prune(contract string) error {
	names := st.files(contract)
	var errs []error
	for _, name := range names[min(len(names), keptModels):] {
		errs = append(errs, os.Remove(name))
		if err := os.Remove(proof.Path(name)); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
