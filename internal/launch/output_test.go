package launch_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/launch"
)

func TestExitInWords(t *testing.T) {
	for want, exit := range map[string]launch.Exit{
		"exit code 3":                                {ExitCode: 3},
		"exit code 127: command not found":           {ExitCode: 127, Reason: "command not found"},
		"killed by signal 9 (killed)":                {ExitCode: 137, Signal: syscall.SIGKILL},
		"killed by signal 9 (killed): out of memory": {ExitCode: 137, Signal: syscall.SIGKILL, Reason: "out of memory"},
		"container vanished":                         {ExitCode: -1, Reason: "container vanished"},
		"exit code unknown":                          {ExitCode: -1},
	} {
		if got := exit.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLogFileIsGivenToTheProgramsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	owner := &launch.Owner{UID: 1234, GID: 5678}
	write := func(name string) error {
		o := launch.NewOutput(launch.OutputConfig{LogFile: filepath.Join(dir, name), Owner: owner})
		s := o.Stream("stdout")
		_, _ = s.Write([]byte("x"))
		_ = s.Close()
		_, err := o.Finish()
		return err
	}
	if err := write("p_sw.log"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "p_sw.log"))
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 1234 || stat.Gid != 5678 {
		t.Errorf("owner is %d:%d, want 1234:5678", stat.Uid, stat.Gid)
	}

	// The program's user could have made another name for a file that is not its own.
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(precious, filepath.Join(dir, "linked_sw.log")); err != nil {
		t.Fatal(err)
	}
	if err := write("linked_sw.log"); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(precious); err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 0 {
		t.Errorf("a file with two names was given to %d", stat.Uid)
	}
}

func TestLogFileIsAFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "p_sw.log")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	o := launch.NewOutput(launch.OutputConfig{LogFile: fifo})
	if _, err := o.Finish(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want that it is not a regular file", err)
	}
}
