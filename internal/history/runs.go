package history

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Remove forgets a contract.
func (s *Store) Remove(contract string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.remove(contract)
}

func (s *Store) remove(contract string) {
	s.drop(s.files, contract)
	s.drop(s.earlier, contract)
}

// Forget removes the runs before one of a contract that was deleted, after which one of its name was created.
func (s *Store) Forget(contract string, run uint64, createdMS int64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, files := range []map[string]*runFile{s.files, s.earlier} {
		if b := files[contract]; b != nil && b.run < run && b.before(createdMS) {
			s.drop(files, contract)
		}
	}
}

// Before reports whether all rounds that are kept of a run were committed before a time; not if that is not known of them.
func (s *Store) Before(contract string, run uint64, atMS int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range []*runFile{s.earlier[contract], s.files[contract]} {
		if b != nil && b.run == run {
			return b.before(atMS)
		}
	}
	return false
}

// before reports whether the last commit is known, and was before a time.
func (b *runFile) before(atMS int64) bool { return 0 < b.committedMS && b.committedMS < atMS }

// drop removes a contract's file from those of one kind.
func (s *Store) drop(files map[string]*runFile, contract string) {
	b := files[contract]
	if b == nil {
		return
	}
	if err := os.Remove(filepath.Join(s.dir, fileName(contract, b.run))); err != nil {
		s.log.Warn("could not remove the history of a contract; remove the file", "contract", contract, "run", b.run, "err", err)
	}
	s.mu.Lock()
	delete(files, contract)
	s.mu.Unlock()
	s.release(b.file)
}

// end makes a contract's run the earlier one, of which a quarter of the contract's limit is kept at most. One without a round leaves that which
// is there.
func (s *Store) end(contract string) {
	b := s.files[contract]
	if len(b.lines) == 0 {
		s.drop(s.files, contract)
		return
	}
	s.drop(s.earlier, contract)
	if b.size > s.limits.Contract/4 {
		if err := s.rewrite(contract, b, b.lines, s.limits.Contract/4); err != nil {
			s.log.Warn("the history of a contract's run that was reset is not kept; free space on the disk of the state directory", "contract", contract, "run", b.run, "err", err)
			s.drop(s.files, contract)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, contract)
	s.earlier[contract] = b
}

// Contracts are those of which there is a history, by name.
func (s *Store) Contracts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.files)), maps.Keys(s.earlier))
	slices.Sort(names)
	return slices.Compact(names)
}

// Runs are those of a contract of which there are rounds, ascending.
func (s *Store) Runs(contract string) (runs []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range []*runFile{s.earlier[contract], s.files[contract]} {
		if b != nil && len(b.lines) > 0 {
			runs = append(runs, b.run)
		}
	}
	return runs
}

// sizes are the bytes of files, and whose is the largest.
func sizes(files map[string]*runFile) (all int64, largest string) {
	for name, b := range files {
		if all += b.size; largest == "" || b.size > files[largest].size {
			largest = name
		}
	}
	return all, largest
}
