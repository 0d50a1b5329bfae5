package runswarm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work"
)

const (
	maxBack  = 1 << 20                // bytes before the end of an output of which lines are shown
	readEach = 250 * time.Millisecond // that is looked for what was printed
)

var _ work.Printer = (*Processes)(nil)

// Print implements work.Printer.
func (p *Processes) Print(ctx context.Context, l work.Label, tail int, follow bool, emit func(from, line string) error) error {
	m, err := p.open(p.memberDir(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, known := errors.AsType[*damaged](err); err != nil && !known {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	if !follow {
		all.SetLimit(1) // one after the other
	}
	for _, n := range m.Nodes {
		from, over := p.Host.name(n.Index), func() bool { return p.ended(&m, n) }
		all.Go(func() error {
			return printed(ctx, m.file(n, outputFile), tail, follow, over, func(line string) error { return emit(from, line) })
		})
	}
	return all.Wait()
}

// ended reports whether an SL prints nothing any more.
func (p *Processes) ended(m *member, n slNode) bool {
	if _, err := os.Stat(m.dir); err != nil {
		return true
	}
	live, err := p.live()
	return err == nil && !p.runs(live, m, n)
}

// printed hands out the last lines of a file, and those that follow until over says that there are no more.
func printed(ctx context.Context, file string, tail int, follow bool, over func() bool, emit func(line string) error) error {
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

// name is that of the SL of a node of the profile in the swarm.
func (h *Host) name(index int) string { return h.Name + "-sl-" + strconv.Itoa(index) }
