package shell_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/shell"
)

// fixture is a shell whose commands do what their first word says.
type fixture struct {
	cfg   shell.Config
	out   bytes.Buffer
	shell *shell.Shell
	// interrupt is what Ctrl-C does, once the shell runs.
	interrupt func()
	running   chan struct{} // told when `hang` begins
}

func setup(in string) *fixture {
	f := &fixture{running: make(chan struct{}, 1)}
	f.cfg = shell.Config{
		In: strings.NewReader(in), Out: &f.out, Run: f.run,
		Interrupts: func(g func()) func() {
			f.interrupt = g
			return func() { f.interrupt = nil }
		},
	}
	return f
}

func (f *fixture) start(ctx context.Context) error {
	f.shell = shell.New(f.cfg)
	return f.shell.Run(ctx)
}

func (f *fixture) run(ctx context.Context, words []string, out io.Writer) error {
	switch words[0] {
	case "say":
		fmt.Fprintln(out, strings.Join(words[1:], "|"))
	case "much":
		fmt.Fprint(out, "some, and ")
		_, err := out.Write(bytes.Repeat([]byte("x"), 1<<24))
		return err
	case "begin":
		fmt.Fprint(out, "no end of line")
	case "fail":
		return exit.New(exit.Conflict, "try: swarmctl say sorry", "it failed\nand more; usage: swarmctl fail")
	case "exit":
		f.shell.Exit()
	case "strict":
		f.shell.ExitOnFailure(true)
		f.shell.Report(out, "EXIT ON FAILURE IS TURNED ON")
	case "cd":
		return f.shell.Chdir(words[1])
	case "ls":
		return f.shell.List(ctx, out, words[1:])
	case "hang":
		f.running <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func TestTranscript(t *testing.T) {
	f := setup("# a comment\n\n  say one 'two three'\nbegin\nfail\nsay 'open\nstrict\nsay \x1b[2Jlast\nfail\nsay never\n")
	err := f.start(t.Context())
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "stdin:9: ") {
		t.Errorf("error: %v", err)
	}
	want := `SWCI:0 > # a comment
SWCI:0 >
SWCI:0 >   say one 'two three'
    one|two three
SWCI:1 > begin
    no end of line
SWCI:2 > fail
ERROR : stdin:5: it failed
and more; usage: fail
    hint: try: say sorry
SWCI:3 > say 'open
ERROR : stdin:6: a quote is not closed
SWCI:4 > strict
SWCI:4 > EXIT ON FAILURE IS TURNED ON
SWCI:5 > say last
    last
SWCI:6 > fail
ERROR : stdin:9: it failed
and more; usage: fail
    hint: try: say sorry
`
	got := strings.ReplaceAll(f.out.String(), "SWCI:0 > \n", "SWCI:0 >\n")
	got = strings.ReplaceAll(got, "\x1b[2J", "") // the fixture's command prints what it is given
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

// TestPastedPrompts runs what was copied from a transcript, prompts and all.
func TestPastedPrompts(t *testing.T) {
	f := setup("SWCI:7 > say one\n  SWCI:8 >\tsay two\nSWCI:9 > # three\nSWCI:10 >\nsay SWCI:1 > four\nSWCI:x > say\n")
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `SWCI:0 > SWCI:7 > say one
    one
SWCI:1 >   SWCI:8 > say two
    two
SWCI:2 > SWCI:9 > # three
SWCI:2 > SWCI:10 >
SWCI:2 > say SWCI:1 > four
    SWCI:1|>|four
SWCI:3 > SWCI:x > say
`
	if diff := cmp.Diff(want, f.out.String()); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

func TestUTF16ScriptIsRefused(t *testing.T) {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		f := setup(mark + "l\x00s\x00\n\x00")
		f.cfg.Name = "a.cmd"
		err := f.start(t.Context())
		if err == nil || err.Error() != "a.cmd:1: the script is in UTF-16" || exit.Hint(err) != "save it as UTF-8" || f.out.Len() > 0 {
			t.Errorf("%q: %v, %q", mark, err, f.out.String())
		}
	}
}

// TestDo asks for single lines, as web mode does.
func TestDo(t *testing.T) {
	f := setup("never read")
	s := shell.New(f.cfg)
	f.shell = s
	for _, tt := range []struct {
		line string
		want []string
		code int
	}{
		{"  say one two ", []string{"one|two"}, 0},
		{"", nil, 0},
		{"# say it", nil, 0},
		{"begin", []string{"no end of line"}, 0},
		{"cd /nowhere", []string{"ERROR : change directory: chdir /nowhere: no such file or directory"}, exit.Failed},
		{"say 'a", []string{"ERROR : a quote is not closed"}, exit.Failed},
		{"say a\nsay b", []string{"ERROR : a command is one line of 65536 bytes at most"}, exit.Usage},
		{"much", []string{"some, and ", "ERROR : the answer has more than 16777216 bytes"}, exit.Failed},
		{"fail", []string{"ERROR : it failed", "and more; usage: fail", "    hint: try: say sorry"}, exit.Conflict},
		{"strict", []string{"EXIT ON FAILURE IS TURNED ON"}, 0},
	} {
		got, err := s.Do(t.Context(), tt.line)
		if exit.Code(err) != tt.code {
			t.Errorf("%q: %v, want code %d", tt.line, err, tt.code)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.line, diff)
		}
		if s.Over() {
			t.Errorf("%q ends the shell", tt.line)
		}
	}
	if _, err := s.Do(t.Context(), "fail"); err == nil || !s.Over() {
		t.Errorf("a failure that was not to be: %v, over: %v", err, s.Over())
	}
	if f.out.Len() > 0 {
		t.Errorf("beside the answers: %q", f.out.String())
	}
}

// TestSeveralAtOnce holds that lines run beside each other, each with its own answer.
func TestSeveralAtOnce(t *testing.T) {
	f := setup("")
	f.running = make(chan struct{})
	f.shell = shell.New(f.cfg)
	ctx, leave := context.WithCancelCause(t.Context())
	left := errors.New("left")
	hung := make(chan error, 1)
	go func() {
		_, err := f.shell.Do(ctx, "hang")
		hung <- err
	}()
	<-f.running
	if got, err := f.shell.Do(t.Context(), "strict"); err != nil || !slices.Equal(got, []string{"EXIT ON FAILURE IS TURNED ON"}) {
		t.Errorf("beside a command that waits: %q, %v", got, err)
	}
	leave(left)
	if err := <-hung; !errors.Is(err, left) {
		t.Errorf("the command that waited: %v", err)
	}
}

// TestOwnDirectory holds that shells with directories of their own leave that of the process alone.
func TestOwnDirectory(t *testing.T) {
	usr := t.TempDir()
	t.Chdir(usr)
	for _, dir := range []string{"a/deep", "b"} {
		if err := os.MkdirAll(filepath.Join(usr, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("a/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one := shell.New(shell.Config{Dir: usr, OwnDir: true})
	other := shell.New(shell.Config{Dir: usr, OwnDir: true})
	for _, step := range []string{"a", "deep", "..", "/platform/swarm/usr/a"} {
		if err := one.Chdir(step); err != nil {
			t.Fatalf("cd %s: %v", step, err)
		}
	}
	if err := errors.Join(other.Chdir("b"), one.Chdir("file"), one.Chdir("b")); err == nil || !strings.Contains(err.Error(), "a/file is not a directory") || !strings.Contains(err.Error(), "a/b: no such file") {
		t.Errorf("what is no directory is entered: %v", err)
	}
	for s, want := range map[*shell.Shell]string{one: "a", other: "b"} {
		if got, err := s.Getwd(); err != nil || got != filepath.Join(usr, want) {
			t.Errorf("directory %q, %v, want %s", got, err, want)
		}
		if got := s.Path("x.yaml"); got != want+"/x.yaml" {
			t.Errorf("path %q", got)
		}
	}
	if got := one.Path("../../x"); got != filepath.Join(filepath.Dir(usr), "x") {
		t.Errorf("path outside: %q", got)
	}
	if got := one.Path("/etc/x"); got != "/etc/x" {
		t.Errorf("absolute path: %q", got)
	}
	if !one.Inside("..") || one.Inside("../..") || !one.Inside("file") {
		t.Error("what is inside is not told from what is outside")
	}
	var out bytes.Buffer
	if err := one.List(t.Context(), &out, nil); err != nil || out.String() != "deep\nfile\n" {
		t.Errorf("list: %q, %v", out.String(), err)
	}
	if here, err := os.Getwd(); err != nil || here != usr {
		t.Errorf("the process is in %s, %v", here, err)
	}
}

func TestStartupScript(t *testing.T) {
	tests := []struct {
		name, script, text, in, want string
		bad                          bool
	}{
		{"runs before what follows", "", "say script", "say prompt", "SWCI:0 > say script\n    script\nSWCI:1 > say prompt\n    prompt\n", false},
		{"ends the shell by exit", "", "exit\nsay never", "say never", "SWCI:0 > exit\n", false},
		{"of another name", "mine", "say mine", "", "SWCI:0 > say mine\n    mine\n", false},
		{"that is not there", "absent", "", "", "", true},
		{"elsewhere", "../usr/swci-init", "say it", "", "", true},
		{"that is a directory", "sub", "", "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir()) // which the shell leaves
			f := setup(tt.in)
			f.cfg.Dir, f.cfg.Script = filepath.Join(t.TempDir(), "usr"), tt.script
			if err := os.MkdirAll(filepath.Join(f.cfg.Dir, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			if name := filepath.Base(tt.script); tt.text != "" {
				if tt.script == "" {
					name = shell.DefaultScript
				}
				if err := os.WriteFile(filepath.Join(f.cfg.Dir, name), []byte(tt.text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := f.start(t.Context())
			if bad := err != nil && strings.Contains(err.Error(), "--init-script-name: "+tt.script+": bad file"); bad != tt.bad {
				t.Errorf("error: %v, want bad file: %v", err, tt.bad)
			}
			if diff := cmp.Diff(tt.want, f.out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("is optional under its default name", func(t *testing.T) {
		t.Chdir(t.TempDir())
		f := setup("")
		f.cfg.Dir = t.TempDir()
		if err := f.start(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestUserDirectoryByItsOldNames(t *testing.T) {
	t.Chdir(t.TempDir())
	f := setup("cd /platform/swarm/usr/sub\nls\ncd /\nls /platform/swarm/usr/sub\ncd /platform/swci/usr\nls -l sub\ncd absent\nls -x\nls -1r sub\nls -tr sub\n")
	f.cfg.Dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(f.cfg.Dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b", ".hidden"} {
		file := filepath.Join(f.cfg.Dir, "sub", name)
		if err := os.WriteFile(file, []byte("12"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Unix(int64(i+1)*1000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SWCI:1 > ls\n    a\n    b\nSWCI:2", "    -rw-r--r--            2 ", "SWCI:3 > ls /platform/swarm/usr/sub\n    a\n    b\n", "ERROR : stdin:7: change directory: chdir absent", "ERROR : stdin:8: unknown option -x", "> ls -1r sub\n    b\n    a\n", "> ls -tr sub\n    a\n    b\n"} {
		if !strings.Contains(f.out.String(), want) {
			t.Errorf("no %q in:\n%s", want, f.out.String())
		}
	}
}

// TestListTakesPatterns, as other shells do, and the options that show what is below.
func TestListTakesPatterns(t *testing.T) {
	t.Chdir(t.TempDir())
	f := setup("cd /platform/swarm/usr\nls *.yaml\nls -A d*\nls /platform/swci/usr/d/?\nls -d *\nls -R\nls -S *.yaml d\nls *.none\nls [\ncd d\nls ../*.yaml\n")
	f.cfg.Dir = t.TempDir()
	for name, size := range map[string]int{"b.yaml": 1, "a.yaml": 2, ".c.yaml": 3, "d/x": 1, "d/.h": 1, "d/below/y": 1} {
		file := filepath.Join(f.cfg.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"> ls *.yaml\n    a.yaml\n    b.yaml\nSWCI", "> ls -A d*\n    .h\n    below\n    x\nSWCI", "> ls /platform/swci/usr/d/?\n    x\nSWCI", "> ls -d *\n    a.yaml\n    b.yaml\n    d\nSWCI",
		"> ls -R\n    .:\n    a.yaml\n    b.yaml\n    d\n", "    d:\n    below\n    x\n", "    d/below:\n    y\nSWCI", "> ls -S *.yaml d\n    a.yaml\n    b.yaml\n", "ERROR : stdin:8: list files: stat *.none", "ERROR : stdin:9: list files: stat [",
		"> ls ../*.yaml\n    a.yaml\n    b.yaml\n",
	} {
		if !strings.Contains(f.out.String(), want) {
			t.Errorf("no %q in:\n%s", want, f.out.String())
		}
	}
}

// TestListEnds with its context, and after so many files as somebody reads.
func TestListEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	for i := range 1100 {
		if err := os.Mkdir(fmt.Sprintf("d%d", i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo("dpipe", 0o600); err != nil { // nobody writes: to open it would take for ever
		t.Fatal(err)
	}
	s := shell.New(shell.Config{Out: io.Discard})
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(exit.ErrInterrupted)
	for _, args := range [][]string{{"-R"}, {"*"}, {"d*/../d*"}} {
		if err := s.List(gone, io.Discard, args); !errors.Is(err, exit.ErrInterrupted) {
			t.Errorf("ls %q: %v", args, err)
		}
	}
	err := s.List(t.Context(), io.Discard, []string{"d*/../d*"}) // 1,100 times 1,100 files
	if err == nil || err.Error() != "list files: there are more than 100000 files" || exit.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	if err := s.List(t.Context(), io.Discard, []string{"-R", "d1*"}); err != nil {
		t.Error(err)
	}
	if err := s.List(t.Context(), io.Discard, []string{"d*/x*"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file is called so: %v", err)
	}
}

func TestCtrlCEndsACommandAndItsScript(t *testing.T) {
	t.Chdir(t.TempDir())
	f := setup("say prompt")
	f.cfg.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(f.cfg.Dir, "swci-init"), []byte("hang\nsay never"), 0o644); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-f.running
		f.interrupt()
	}()
	if err := f.start(t.Context()); err != nil {
		t.Error(err)
	}
	want := "SWCI:0 > hang\nERROR : swci-init:1: interrupted\nSWCI:1 > say prompt\n    prompt\n"
	if diff := cmp.Diff(want, f.out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestCtrlCEndsWhatIsPipedIn(t *testing.T) {
	f := setup("hang\nsay never")
	go func() {
		<-f.running
		f.interrupt()
	}()
	if err := f.start(t.Context()); !errors.Is(err, exit.ErrInterrupted) {
		t.Errorf("error: %v", err)
	}
	if strings.Contains(f.out.String(), "never") {
		t.Errorf("it went on:\n%s", f.out.String())
	}
}

func TestALineThatIsTooLong(t *testing.T) {
	f := setup("say it\nsay " + strings.Repeat("x", 64<<10))
	f.cfg.Name = "a.cmd"
	if err := f.start(t.Context()); err == nil || err.Error() != "a.cmd:2: the line has more than 65536 bytes" {
		t.Errorf("error: %.200v", err)
	}
}

func TestAnIdlePipeIsLeftWhenTheContextEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	f := setup("")
	f.cfg.In = r
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.start(ctx) }()
	if _, err := w.WriteString("hang\n"); err != nil {
		t.Fatal(err)
	}
	<-f.running
	cancel(exit.ErrInterrupted)
	select {
	case err := <-ended:
		if !errors.Is(err, exit.ErrInterrupted) {
			t.Errorf("error: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the shell reads on")
	}
}
