package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// OutputConfig says what becomes of a program's output. Line, LogTail and LogFile are as in Spec.
type OutputConfig struct {
	Line    func(stream, line string)
	LogTail int
	LogFile string
	// Owner, if set, is whom LogFile is given to when this process is root's.
	Owner *Owner
}

// Owner is the numeric user and group of a file.
type Owner struct{ UID, GID int }

// Output collects what a program prints on its streams: it passes lines on, keeps the last ones, writes the log file. Its
// methods are safe for concurrent use.
type Output struct {
	mu     sync.Mutex
	line   func(stream, line string)
	tail   tail
	file   io.WriteCloser
	logErr error
}

// NewOutput returns an Output. A log file that can not be opened is told by Finish. The caller calls Finish.
func NewOutput(c OutputConfig) *Output {
	o := &Output{line: c.Line, tail: tail{keep: c.LogTail}}
	if c.LogTail == 0 {
		o.tail.keep = defaultTail
	}
	if c.LogFile == "" {
		return o
	}
	f, err := openLog(c.LogFile, c.Owner)
	if err != nil {
		o.logErr = fmt.Errorf("open program's log: %w", err)
		return o
	}
	o.file = f
	return o
}

// openLog opens a file that the program can tamper with: it can write where this file lies, so a link that it put there is
// never followed, and only a file of this process's own, known by no other name, is given away.
func openLog(path string, owner *Owner) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), f.Close())
	}
	me := os.Geteuid()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if owner == nil || me != 0 || owner.UID == me || !ok || int(stat.Uid) != me || stat.Nlink != 1 {
		return f, nil
	}
	if err := f.Chown(owner.UID, owner.GID); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Stream returns a writer for what the program prints on the stream of that name. Writing never fails. The caller closes
// it, which passes on a last line that has no end, and writes from one goroutine at a time.
func (o *Output) Stream(name string) io.WriteCloser {
	return &stream{splitter{fn: func(line string) { o.take(name, line) }}}
}

// stream splits what is written to it into lines.
type stream struct{ lines splitter }

func (s *stream) Write(p []byte) (int, error) {
	s.lines.write(p)
	return len(p), nil
}

func (s *stream) Close() error {
	s.lines.flush()
	return nil
}

func (o *Output) take(stream, line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail.add(line)
	if o.file != nil && o.logErr == nil {
		if _, err := io.WriteString(o.file, line+"\n"); err != nil {
			o.logErr = fmt.Errorf("write program's log: %w", err)
		}
	}
	if o.line != nil {
		o.line(stream, line)
	}
}

// Finish closes the log file and returns the last lines, oldest first, and why the file is incomplete, nil if it is not.
// The streams are closed before.
func (o *Output) Finish() (tail []string, logErr error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.logErr = errors.Join(o.logErr, o.file.Close())
		o.file = nil
	}
	return o.tail.lines, o.logErr
}
