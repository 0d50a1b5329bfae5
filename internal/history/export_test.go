package history

import "os"

// BreakReads has the disk refuse to give out what is kept of a contract, while it takes more, until mend.
func (s *Store) BreakReads(contract string) (mend func(), err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.files[contract]
	whole := b.file.File
	b.file.File, err = os.OpenFile(whole.Name(), os.O_WRONLY, 0)
	if err != nil {
		b.file.File = whole
		return nil, err
	}
	return func() {
		s.writing.Lock()
		defer s.writing.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = b.file.Close()
		b.file.File = whole
	}, nil
}
