package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// maxLine bounds one line of a script or pipe, in bytes.
const maxLine = 64 << 10

// input opens what follows the startup script: a terminal, or lines from elsewhere, which are treated as a script's.
func (s *Shell) input(ctx context.Context) (reader, func(), error) {
	name := s.cfg.Name
	if name == "" || name == "-" {
		name = "stdin"
	}
	f, isFile := s.cfg.In.(*os.File)
	if !isFile {
		return s.scripted(name, s.cfg.In), func() {}, nil
	}
	in, err := newBreakable(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	if !s.cfg.TTY {
		return s.scripted(name, in), in.close, nil
	}
	c := &console{f: f, out: s.cfg.Out, width: 80}
	c.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys{in}, s.cfg.Out}, "")
	c.term.History = openHistory(s.cfg.History)
	if s.cfg.Complete != nil {
		c.term.AutoCompleteCallback = c.completer(func(head string) []string { return s.cfg.Complete(ctx, head) })
	}
	return c, in.close, nil
}

// scripted reads the lines of a script or pipe and echoes each behind the prompt.
func (s *Shell) scripted(name string, r io.Reader) reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return &script{name: name, lines: lines, out: s.cfg.Out}
}

type script struct {
	name  string
	lines *bufio.Scanner
	n     int
	out   io.Writer
}

func (s *script) next(prompt string) (string, error) {
	s.n++
	if !s.lines.Scan() {
		err := s.lines.Err()
		switch {
		case err == nil:
			err = io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			err = fmt.Errorf("%s: the line has more than %d bytes", s.place(), maxLine)
		default:
			err = fmt.Errorf("%s: read command: %w", s.place(), err)
		}
		return "", err
	}
	line := s.lines.Text()
	if s.n == 1 && (strings.HasPrefix(line, "\xff\xfe") || strings.HasPrefix(line, "\xfe\xff")) {
		return "", exit.New(exit.Usage, "save it as UTF-8", "%s: the script is in UTF-16", s.place())
	}
	if s.n == 1 {
		line = strings.TrimPrefix(line, "\ufeff") // editors of Windows begin a file with it
	}
	fmt.Fprintln(s.out, prompt+text.Line(line))
	return line, nil
}

func (s *script) place() string { return fmt.Sprintf("%s:%d", s.name, s.n) }

// console edits lines on a terminal, with a history. The terminal is raw only while a line is typed: a command's output
// and Ctrl-C are then as everywhere.
type console struct {
	f     *os.File
	out   io.Writer
	term  *term.Terminal
	width int // of the terminal, in columns
}

func (c *console) next(prompt string) (string, error) {
	fd := int(c.f.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("prepare terminal: %w", err)
	}
	defer func() { _ = term.Restore(fd, before) }()
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = c.term.SetSize(width, height)
		c.width = width
	}
	c.term.SetPrompt(prompt)
	line, err := c.term.ReadLine()
	if err != nil {
		fmt.Fprint(c.out, "\r\n") // the shell that called is not to write behind the prompt
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read command: %w", err)
	}
	return line, err
}

func (c *console) place() string { return "" }

// completer is what the terminal calls with each key: the tabulator completes the line.
func (c *console) completer(candidates func(head string) []string) func(string, int, rune) (string, int, bool) {
	return func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		newLine, newPos, choices := complete(line, pos, candidates(line[:pos]))
		if len(choices) > 0 {
			var b strings.Builder
			columns(&b, choices, c.width)
			_, _ = c.term.Write([]byte(b.String())) // the terminal shows prompt and line again behind it
		}
		return newLine, newPos, true
	}
}

// keys makes Ctrl-C clear the line that is typed: to term.Terminal it is the end of the input.
type keys struct{ r io.Reader }

// Read implements io.Reader.
func (k keys) Read(p []byte) (int, error) {
	n, err := k.r.Read(p[:(len(p)+1)/2])
	typed := bytes.ReplaceAll(p[:n:n], []byte{ctrlC}, []byte{ctrlU, ctrlK})
	return copy(p, typed), err
}

const (
	ctrlC = 0x03
	ctrlK = 0x0b // delete to the end of the line
	ctrlU = 0x15 // delete to its beginning
)

// breakable reads a file until the context ends, even while nothing is there to be read.
type breakable struct {
	f, wake *os.File
	cause   func() error
	close   func()
}

func newBreakable(ctx context.Context, f *os.File) (*breakable, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	return &breakable{f: f, wake: r, cause: func() error { return context.Cause(ctx) }, close: func() {
		if stop() {
			_ = w.Close()
		}
		_ = r.Close()
	}}, nil
}

// Read implements io.Reader.
func (b *breakable) Read(p []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(b.f.Fd()), Events: unix.POLLIN}, {Fd: int32(b.wake.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("wait for input: %w", err)
		}
		if fds[1].Revents != 0 {
			return 0, b.cause()
		}
		if fds[0].Revents != 0 {
			return b.f.Read(p)
		}
	}
}
