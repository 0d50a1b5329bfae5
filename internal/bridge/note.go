package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxNote bounds a note in bytes.
const maxNote = 4 << 10

// noteName is the file, in the private directory, that says which model a merged one holds.
func noteName(i int) string { return fileNames[1+i] + ".note" }

// openNotes opens the notes of both merged files, or makes them.
func (s *Slots) openNotes() (err error) {
	for i := range s.notes {
		s.notes[i], err = os.OpenFile(filepath.Join(s.dir.private, noteName(i)), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return fmt.Errorf("open the note of a weight file: %w", err)
		}
	}
	return nil
}

// salvage shows the merged files in dir that have a note.
func salvage(dir string, take func(note string, model *os.File)) {
	for _, private := range privateDirs(dir) {
		for i := range 2 {
			note, err := readNote(filepath.Join(private, noteName(i)))
			if err != nil || note == "" {
				continue
			}
			f, err := openLeft(filepath.Join(private, fileNames[1+i]))
			if errors.Is(err, fs.ErrNotExist) {
				f, err = openLeft(filepath.Join(dir, fileNames[1+i]))
			}
			if err != nil {
				continue // it may be anything, or gone
			}
			take(note, f)
			_ = f.Close()
		}
	}
}

func readNote(path string) (string, error) {
	f, err := openLeft(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxNote))
	note, _, whole := bytes.Cut(b, []byte("\n"))
	if err != nil || !whole {
		return "", err
	}
	return string(note), nil
}

// openLeft opens for reading what a dead daemon left, if it is a file: a program could put anything there.
func openLeft(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
