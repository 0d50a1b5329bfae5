package detached

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	maxTail  = 16 << 10               // bytes at the end of an output that are looked at for its last lines
	maxBack  = 1 << 20                // bytes before the end of an output of which lines are shown
	readEach = 250 * time.Millisecond // that is looked for what was printed
)

// Before is where the part of an output is that was printed before the one in a file, which began anew when it was full.
func Before(file string) string { return file + ".1" }

// LastLines are the last lines of an output.
func LastLines(file string) []string {
	raw := lastBytes(file, maxTail)
	if room := maxTail - len(raw); room > 0 {
		raw = append(lastBytes(Before(file), room), raw...)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// lastBytes are the last bytes of a file, as many as are wanted if there are.
func lastBytes(file string, most int) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(size-int64(most), 0), io.SeekStart) // else all of it is read, up to the bound
	}
	raw, err := io.ReadAll(io.LimitReader(f, int64(most)))
	if err != nil {
		return nil
	}
	return raw
}

// LeftOut stands for lines that nobody was handed: the program printed faster than they were read, and they are not kept any more.
const LeftOut = "(what was printed here is left out: it came faster than it was read)"

// Printed hands out the last lines of a file, and those that follow until over says that there are no more.
func Printed(ctx context.Context, file string, tail int, follow bool, over func() bool, emit func(line string) error) error {
	f, err := openTail(file, tail)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r := &reader{file: file, at: f, said: &text.Lines{Emit: emit}}
	defer r.close()
	for {
		last := !follow || over() // before what is read: what is printed until then is seen
		if err := r.keepUp(); err != nil {
			return err
		}
		whole, err := r.read(ctx)
		switch {
		case err != nil:
			return err
		case !whole && ctx.Err() == nil:
			continue
		case r.next != nil && ctx.Err() == nil:
			if err := r.turn(); err != nil {
				return err
			}
			continue
		case last:
			return r.said.Rest()
		}
		pause := time.NewTimer(readEach)
		select {
		case <-ctx.Done():
			pause.Stop()
			return r.said.Rest()
		case <-pause.C:
		}
	}
}

// reader reads an output that may begin anew while it does, and be removed.
type reader struct {
	file    string
	at      *os.File // what is read
	next    *os.File // the newest part, if that is another
	skipped bool     // there were others between the two
	said    *text.Lines
}

func (r *reader) close() {
	_ = r.at.Close()
	if r.next != nil {
		_ = r.next.Close()
	}
}

// keepUp opens the newest part of the output, so that it can be read also when it is not there any more.
func (r *reader) keepUp() error {
	newest, err := os.Open(r.file)
	if errors.Is(err, fs.ErrNotExist) { // it is about to begin, or was removed
		return nil
	}
	if err != nil {
		return err
	}
	known := r.at
	if r.next != nil {
		known = r.next
	}
	if same, err := sameFile(known, newest); err != nil || same {
		return errors.Join(err, newest.Close())
	}
	if r.next != nil {
		r.skipped = true
		_ = r.next.Close()
	} else if before, err := os.Open(Before(r.file)); err == nil {
		same, err := sameFile(r.at, before)
		r.skipped = err == nil && !same
		_ = before.Close()
	}
	r.next = newest
	return nil
}

func sameFile(a, b *os.File) (bool, error) {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y), errors.Join(err1, err2)
}

// turn goes on with the newest part when all before it was read.
func (r *reader) turn() error {
	_ = r.at.Close()
	r.at, r.next = r.next, nil
	if !r.skipped {
		return nil
	}
	r.skipped = false
	return errors.Join(r.said.Rest(), r.said.Emit(LeftOut))
}

// readMost is how much is read before it is looked whether the output has begun anew, in bytes.
const readMost = 1 << 20

// read hands on what is there, some of it at a time, and reports whether that was all.
func (r *reader) read(ctx context.Context) (whole bool, err error) {
	buf := make([]byte, 32<<10)
	for n := 0; n < readMost && ctx.Err() == nil; {
		m, err := r.at.Read(buf)
		if _, err := r.said.Write(buf[:m]); err != nil {
			return false, err
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		n += m
	}
	return false, nil
}

// openTail opens an output where its last lines begin: in the file, or in the part before.
func openTail(file string, tail int) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	missing, err := toTail(f, tail)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if missing == 0 {
		return f, nil
	}
	before, err := os.Open(Before(file))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := toTail(before, missing); err != nil {
		return nil, errors.Join(err, before.Close(), f.Close())
	}
	return before, f.Close()
}

// toTail leads to the beginning of the last lines, and returns how many are missing in the whole file.
func toTail(f *os.File, tail int) (missing int, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	from := max(size-maxBack, 0)
	raw := make([]byte, size-from)
	n, err := f.ReadAt(raw, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	raw = raw[:n]
	at := len(raw)
	if at > 0 && raw[at-1] == '\n' {
		at--
	}
	for missing = tail; missing > 0 && at >= 0; missing-- {
		at = bytes.LastIndexByte(raw[:at], '\n')
	}
	if len(raw) == 0 {
		missing = tail
	}
	if from > 0 { // what is further back is left out
		missing = 0
	}
	if tail == 0 {
		at = len(raw) - 1
	}
	_, err = f.Seek(from+int64(at)+1, io.SeekStart)
	return missing, err
}
