package shell_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/swci/shell"
	"github.com/swarmd/swarmd/internal/terminal/terminaltest"
)

func TestTerminal(t *testing.T) {
	user, tty := terminaltest.Open(t)
	seen := terminaltest.Watch(user)
	f := setup("")
	f.cfg.In, f.cfg.Out, f.cfg.TTY, f.cfg.History = tty, tty, true, filepath.Join(t.TempDir(), "history")
	f.cfg.Complete = func(_ context.Context, head string) []string {
		if head == "say gr" {
			return []string{"great", "hello"}
		}
		return []string{"hello", "great"}
	}
	ended := make(chan error, 1)
	if got := shell.New(f.cfg).Columns(); got != 80 {
		t.Errorf("%d columns, of a terminal that does not say", got)
	}
	if got := shell.New(shell.Config{Out: tty}).Columns(); got != 0 {
		t.Errorf("%d columns, though lines come from elsewhere", got)
	}
	go func() { ended <- f.start(t.Context()) }()

	write := func(keys string) {
		t.Helper()
		if _, err := user.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	seen.Await(t, "SWCI:0 > ", 1)
	write("typed wrongly\x03say hello\r") // Ctrl-C forgets what is typed
	seen.Await(t, "    hello", 1)
	seen.Await(t, "SWCI:1 > ", 1)
	write("\x1b[A\r") // the last line again
	seen.Await(t, "    hello", 2)
	seen.Await(t, "SWCI:2 > ", 1)
	write("hang\r")
	<-f.running
	f.interrupt() // Ctrl-C while a command runs is a signal
	seen.Await(t, "ERROR : interrupted", 1)
	seen.Await(t, "SWCI:3 > ", 1)
	write("say gr\t\r") // the one word that may stand there
	seen.Await(t, "    great", 1)
	seen.Await(t, "SWCI:4 > ", 1)
	write("say \t")
	seen.Await(t, "great  hello\r\nSWCI:4 > say ", 1)
	write("\x03\x04")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Ctrl-D does not end the prompt")
	}
	if kept, err := os.ReadFile(f.cfg.History); err != nil || string(kept) != "say hello\nhang\nsay great \n" {
		t.Errorf("history: %v, %q", err, kept)
	}
}
