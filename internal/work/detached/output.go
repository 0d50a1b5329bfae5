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

// LastLines are the last lines of an output.
func LastLines(file string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(size-maxTail, 0), io.SeekStart) // else all of it is read, up to the bound
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxTail))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// Printed hands out the last lines of a file, and those that follow until over says that there are no more.
func Printed(ctx context.Context, file string, tail int, follow bool, over func() bool, emit func(line string) error) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := toTail(f, tail); err != nil {
		return err
	}
	said := &text.Lines{Emit: emit}
	for {
		last := !follow || over() // before what is read: what is printed until then is seen
		if err := upTo(ctx, said, f); err != nil {
			return err
		}
		if last {
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

// toTail leads to the beginning of the last lines.
func toTail(f *os.File, tail int) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	from := max(size-maxBack, 0)
	raw := make([]byte, size-from)
	n, err := f.ReadAt(raw, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	raw = raw[:n]
	at := len(raw)
	if at > 0 && raw[at-1] == '\n' {
		at--
	}
	for range tail {
		if at = bytes.LastIndexByte(raw[:at], '\n'); at < 0 {
			break
		}
	}
	if tail == 0 {
		at = len(raw) - 1
	}
	_, err = f.Seek(from+int64(at)+1, io.SeekStart)
	return err
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
