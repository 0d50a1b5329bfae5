package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/mountns"
)

const (
	maxLine  = 16 << 10 // bytes of one log line that are kept
	tailSize = 20       // last lines kept of each process
)

// Exit tells how a process ended.
type Exit struct {
	Name   string
	Code   int    // exit code; 128 plus the signal when one ended it
	Signal string // name of the signal, empty without
	Reason string // what it said of that itself; empty when nothing is known
	Tail   []string
}

// String says it in words.
func (e Exit) String() string {
	if e.Signal != "" {
		return fmt.Sprintf("%s was ended by signal: %s", e.Name, e.Signal)
	}
	if e.Reason != "" {
		return fmt.Sprintf("%s ended with exit code %d: %s", e.Name, e.Code, e.Reason)
	}
	return fmt.Sprintf("%s ended with exit code %d", e.Name, e.Code)
}

// Proc is one child process in a process group of its own.
type Proc struct {
	*child.Process
	Name string
	Role Role

	exit Exit // set before Done is closed

	mu   sync.Mutex
	tail []string
}

// Role says what a process is for.
type Role int

// The roles, in the order in which they are started. They are stopped in reverse.
const (
	Authority Role = iota
	SN
	SL
	SWOP
	Program // an ML program started by swarmctl itself
)

// spec describes a process to start.
type spec struct {
	name   string
	role   Role
	argv   []string
	dir    string
	env    []string // whole environment
	binds  []mountns.Bind
	onOut  func(line string) // each line of standard output
	onErr  func(line string) // each line of standard error
	onExit func(Exit)        // called once, after the last line
}

// start runs s. The child dies with this process.
func start(s spec) (*Proc, error) {
	p := &Proc{Name: s.name, Role: s.role}
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	if len(s.binds) > 0 {
		if err := mountns.Wrap(cmd, s.binds); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.name, err)
		}
	}
	read := func(line func(string)) func(io.Reader) {
		w := &lineWriter{emit: func(text string) {
			p.remember(text)
			line(text)
		}}
		return func(r io.Reader) {
			_, _ = io.Copy(w, r) // the end and the deadline are all the same
			w.flush()
		}
	}
	run, err := child.Start(cmd, child.Output{Stdout: read(s.onOut), Stderr: read(s.onErr)}, func(state *os.ProcessState) { p.exit = p.describe(state) })
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	p.Process = run
	go func() {
		<-p.Done()
		s.onExit(p.exit)
	}()
	return p, nil
}

// Exit tells how it ended; only valid after Done.
func (p *Proc) Exit() Exit { return p.exit }

func (p *Proc) remember(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail = append(p.tail, line)
	if len(p.tail) > tailSize {
		p.tail = p.tail[1:]
	}
}

// Tail returns the process's last lines.
func (p *Proc) Tail() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.tail...)
}

func (p *Proc) describe(state *os.ProcessState) Exit {
	e := Exit{Name: p.Name, Tail: p.Tail()}
	code, signal := child.ExitCode(state)
	if e.Code = code; signal != 0 {
		e.Signal = signal.String()
	}
	return e
}

// lineWriter cuts a stream into lines. What a carriage return has overwritten is left out, as on a terminal.
type lineWriter struct {
	emit func(string)
	buf  []byte
}

// Write implements io.Writer. It is called from one goroutine.
func (w *lineWriter) Write(data []byte) (int, error) {
	n := len(data)
	for {
		head, rest, found := bytes.Cut(data, []byte{'\n'})
		if room := maxLine - len(w.buf); len(head) > room {
			head = head[:room]
		}
		w.buf = append(w.buf, head...)
		if !found {
			return n, nil
		}
		w.flushLine()
		data = rest
	}
}

func (w *lineWriter) flushLine() {
	line := strings.TrimRight(strings.ToValidUTF8(string(w.buf), "?"), "\r")
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	w.buf = w.buf[:0]
	w.emit(line)
}

func (w *lineWriter) flush() {
	if len(w.buf) > 0 {
		w.flushLine()
	}
}

// logFile appends lines to a file; its methods are safe for concurrent use. A file that can't be written loses lines
// silently: the run matters more than its log.
type logFile struct {
	mu sync.Mutex
	f  *os.File
}

func openLog(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &logFile{f: f}, nil
}

func (l *logFile) line(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.f.WriteString(s + "\n")
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.f.Close()
}
