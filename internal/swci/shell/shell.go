// Package shell is the prompt of `swarmctl` and `swarmctl run-swci`: it reads lines from a startup script, then from a terminal, a pipe or a
// file, and hands their words to whoever knows the commands.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/terminal"
	"github.com/swarmd/swarmd/internal/text"
)

// Config is what a shell needs of the outside world.
type Config struct {
	In   io.Reader // a file (terminal, pipe) is given up when the context ends; another reader is not
	Name string    // of In, in errors; "" or - for standard input
	Out  io.Writer // everything: lines as read, results, errors
	TTY  bool      // In and Out are one terminal: lines are edited there and not echoed again
	Dir  string    // user directory, absolute; becomes the working directory; "" for none
	// OwnDir: the working directory is the shell's own, and begins as the process's. So several shells may be in several directories.
	OwnDir bool
	// Script is the startup script, a file directly in Dir. Empty: DefaultScript, if there is one.
	Script string
	// History is the file that keeps what is typed on a terminal; "": none does.
	History string
	// Complete returns the words that may stand where the last word of head does, on a terminal; nil: lines are not completed.
	Complete func(ctx context.Context, head string) []string
	// Split takes a line apart into words; nil: as a POSIX shell does.
	Split func(line string) ([]string, error)
	// Run executes one command. Its output is shown indented.
	Run func(ctx context.Context, words []string, out io.Writer) error
	// Interrupts has SIGINT tell what it calls with, until release; nil leaves signals alone.
	Interrupts func(func()) (release func())
}

// Shell is one session at the prompt.
type Shell struct {
	cfg   Config
	lines int // that were read

	mu       sync.Mutex // guards what follows
	n        int        // commands executed
	failFast bool
	over     bool
	dir      string                  // with OwnDir: the working directory
	cancel   context.CancelCauseFunc // of the command that runs, else of the shell
}

// New returns a shell; Run runs it.
func New(cfg Config) *Shell { return &Shell{cfg: cfg} }

// Run reads and executes lines until EXIT, the end of the input, or a failure after EXIT ON FAILURE, which is returned. It
// blocks. When ctx ends its cause is returned.
func (s *Shell) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.interruptible(cancel)()
	if s.cfg.Interrupts != nil {
		defer s.cfg.Interrupts(s.interrupt)()
	}
	if err := s.Begin(ctx); err != nil && !errors.Is(err, errAbandoned) {
		return err
	}
	if s.Over() {
		return nil
	}
	in, done, err := s.input(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = s.follow(ctx, in)
	if errors.Is(err, errAbandoned) {
		return exit.ErrInterrupted
	}
	return err
}

// Begin enters the user directory and runs the startup script, if there is one. It blocks. Run begins by itself; who calls Do begins
// before.
func (s *Shell) Begin(ctx context.Context) error {
	text, found, err := s.cfg.script()
	if err != nil {
		return err
	}
	if s.cfg.Dir != "" {
		if err := os.Chdir(s.cfg.Dir); err != nil {
			return fmt.Errorf("enter user directory: %w", err)
		}
	}
	if !found {
		return nil
	}
	return s.follow(ctx, s.scripted(s.cfg.scriptName(), strings.NewReader(text)))
}

// errAbandoned ends a script whose command was interrupted.
var errAbandoned = errors.New("interrupted")

// reader gives the next line, having shown prompt and line. io.EOF ends it.
type reader interface {
	next(prompt string) (line string, err error)
	// place tells where the last line stands; "" on a terminal.
	place() string
}

// follow executes what in gives until it ends.
func (s *Shell) follow(ctx context.Context, in reader) error {
	for !s.Over() {
		line, err := in.next(s.prompt())
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.lines++
		if line = typedLine(line); line == "" || line[0] == '#' {
			continue
		}
		err = s.execute(ctx, line, in.place())
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.endsWith(err) && in.place() == "":
			return exit.New(exit.Failed, "", "the command failed, and EXIT ON FAILURE is on")
		case s.endsWith(err):
			return exit.New(exit.Failed, "", "%s: the command failed, and EXIT ON FAILURE is on", in.place())
		case errors.Is(err, exit.ErrInterrupted) && in.place() != "":
			return errAbandoned
		}
	}
	return nil
}

// pasted matches the prompt before a command that was copied from a transcript.
var pasted = regexp.MustCompile(`^SWCI:\d+ >(\s|$)`)

// typedLine is a line without what is no part of the command.
func typedLine(line string) string {
	line = strings.TrimSpace(line)
	return strings.TrimSpace(line[len(pasted.FindString(line)):])
}

// execute runs one command line and shows its results. place is where it stands, "" if somebody has typed it.
func (s *Shell) execute(ctx context.Context, line, place string) error {
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.interruptible(cancel)()
	out := &indented{w: s.cfg.Out}
	err := s.run(own, line, out)
	out.end()
	if err != nil {
		s.complain(s.cfg.Out, place, err)
	}
	s.executed(nil)
	return err
}

// executed counts a command. One that failed ends a shell in which failures do.
func (s *Shell) executed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.over = s.over || err != nil && s.failFast
}

// endsWith reports whether a command's error ends the shell.
func (s *Shell) endsWith(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return err != nil && s.failFast
}

// run hands a line's words to whoever knows the commands.
func (s *Shell) run(ctx context.Context, line string, out io.Writer) error {
	split := shellwords.Split
	if s.cfg.Split != nil {
		split = s.cfg.Split
	}
	words, err := split(line)
	if err == nil {
		err = s.cfg.Run(ctx, words, out)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// maxAnswer bounds what Do returns, in bytes.
const maxAnswer = 16 << 20

// Do executes one line as in a script and returns what it answers, without the four blanks. It is for who asks for single lines, as web
// mode does, and does not read Config.In. An error stands last, as `ERROR : …` and what belongs to it, and is returned too. Empty
// lines and comments answer nothing. Do blocks as long as the command does; several may run at once.
func (s *Shell) Do(ctx context.Context, line string) (answer []string, err error) {
	if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
		return nil, nil
	}
	if strings.ContainsAny(line, "\n\r") || len(line) > maxLine {
		err = exit.New(exit.Usage, "", "a command is one line of %d bytes at most", maxLine)
	}
	out := &answers{}
	if err == nil {
		err = s.run(ctx, line, out)
	}
	said := out.String()
	if err != nil {
		var b strings.Builder
		s.complain(&b, "", err)
		if said != "" && !strings.HasSuffix(said, "\n") {
			said += "\n"
		}
		said += b.String()
	}
	s.executed(err)
	if said = strings.TrimSuffix(said, "\n"); said != "" {
		answer = strings.Split(said, "\n")
	}
	return answer, err
}

// Lines returns how many lines have been read, those of a startup script among them.
func (s *Shell) Lines() int { return s.lines }

// Over reports whether EXIT has been executed, or a command has failed while EXIT ON FAILURE was on.
func (s *Shell) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// answers keeps what a command prints, up to maxAnswer. Safe for concurrent use.
type answers struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (a *answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.b.Len()+len(p) > maxAnswer {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return a.b.Write(p)
}

// String implements fmt.Stringer.
func (a *answers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.b.String()
}

// interruptible names what the next SIGINT cancels, until restore.
func (s *Shell) interruptible(next context.CancelCauseFunc) (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.cancel
	s.cancel = next
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel = before
	}
}

func (s *Shell) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(exit.ErrInterrupted)
}

// Exit ends the shell after the command that calls it.
func (s *Shell) Exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// ExitOnFailure reports whether a failing command ends the shell.
func (s *Shell) ExitOnFailure(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failFast = on
}

// Report shows on a command's writer what a command of the shell itself did, as the original does: beside another prompt.
func (s *Shell) Report(out io.Writer, line string) {
	line = text.Line(line)
	if i, ok := out.(*indented); ok {
		out, line = i.w, s.prompt()+line
	}
	fmt.Fprintln(out, line)
}

// Print shows text on a command's writer as it is, not indented.
func (s *Shell) Print(out io.Writer, text string) {
	if i, ok := out.(*indented); ok {
		out = i.w
	}
	fmt.Fprint(out, text)
}

// Columns is how wide the terminal is now from which lines come and to which answers go, 80 if it does not say; 0: there is none.
func (s *Shell) Columns() int {
	if !s.cfg.TTY {
		return 0
	}
	return terminal.Columns(s.cfg.Out, 80)
}

func (s *Shell) prompt() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("SWCI:%d > ", s.n)
}

// selfNamed matches the program's name before a command: at the prompt it is not typed.
var selfNamed = regexp.MustCompile(`\bswarmctl ([a-z]|[A-Z]+\b)`)

func (s *Shell) complain(w io.Writer, place string, err error) {
	for i, line := range strings.Split(err.Error(), "\n") {
		if i == 0 && place != "" {
			line = place + ": " + line
		}
		if i == 0 {
			line = "ERROR : " + line
		}
		fmt.Fprintln(w, text.Line(selfNamed.ReplaceAllString(line, "$1")))
	}
	if hint := exit.Hint(err); hint != "" {
		fmt.Fprintln(w, "    hint: "+text.Line(selfNamed.ReplaceAllString(hint, "$1")))
	}
}

// indented puts four spaces before every line that is not empty. Safe for concurrent use.
type indented struct {
	w io.Writer

	mu  sync.Mutex
	mid bool // the last byte was not the end of a line
}

// Write implements io.Writer.
func (i *indented) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var b strings.Builder
	for line := range strings.Lines(string(p)) {
		if !i.mid && line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
		i.mid = !strings.HasSuffix(line, "\n")
	}
	if _, err := io.WriteString(i.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end finishes a line that was begun.
func (i *indented) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mid {
		fmt.Fprintln(i.w)
	}
}
