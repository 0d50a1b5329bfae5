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

// Printed hands out the last lines of a file, and those that follow until over says that there are no more.
func Printed(ctx context.Context, file string, tail int, follow bool, over func() bool, emit func(line string) error) error {
	f, err := openTail(file, tail)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	said := &text.Lines{Emit: emit}
	for {
		last := !follow || over() // before what is read: what is printed until then is seen
		next, err := after(f, file)
		if err == nil {
			err = upTo(ctx, said, f)
		}
		switch {
		case err != nil && next != nil:
			return errors.Join(err, next.Close())
		case err != nil:
			return err
		case next != nil: // nothing was added to f any more, and all of it was read
			_ = f.Close()
			f = next
			continue
		case last:
			return said.Rest()
		}
		pause := time.NewTimer(readEach)
		select {
		case <-ctx.Done():
			pause.Stop()
			return said.Rest()
		case <-pause.C:
		}
	}
}

// after opens the file if it has begun anew and f is the part before; else it returns nil.
func after(f *os.File, file string) (*os.File, error) {
	next, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) { // it is about to begin, or was removed
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	was, err1 := f.Stat()
	is, err2 := next.Stat()
	if err := errors.Join(err1, err2); err != nil || os.SameFile(was, is) {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
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

// upTo copies what is there, until ctx ends.
func upTo(ctx context.Context, to io.Writer, f io.Reader) error {
	buf := make([]byte, 32<<10)
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
