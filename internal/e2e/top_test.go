package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/terminal/terminaltest"
)

// topScreen is `swarmctl top` in a terminal.
type topScreen struct {
	s      *statefulSet
	user   *os.File
	tty    *os.File
	seen   *terminaltest.Screen
	before unix.Termios
	ended  chan error
}

// top runs `swarmctl top` at these pods' APIs.
func (s *statefulSet) top(pods ...int) *topScreen {
	s.T.Helper()
	args := []string{"top", "e2e", "--identity", "embedded=" + s.Path("ca")}
	for _, i := range pods {
		args = append(args, "--sn", s.Addr(i+1)+":30304")
	}
	x := &topScreen{s: s, ended: make(chan error, 1)}
	x.user, x.tty = terminaltest.Open(s.T)
	x.resize(24, 80)
	x.before = x.mode()
	cmd := exec.Command(filepath.Join(e2etest.BinDir, "swarmctl"), args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.Dir, "TERM=xterm-256color"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.tty, x.tty, x.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	x.seen = terminaltest.Watch(x.user)
	if err := cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	go func() { x.ended <- cmd.Wait() }()
	return x
}

func (x *topScreen) mode() unix.Termios {
	x.s.T.Helper()
	mode, err := unix.IoctlGetTermios(int(x.tty.Fd()), unix.TCGETS)
	if err != nil {
		x.s.T.Fatal(err)
	}
	return *mode
}

// resize makes the terminal another size; the screen is drawn anew then.
func (x *topScreen) resize(rows, columns uint16) {
	x.s.T.Helper()
	if err := unix.IoctlSetWinsize(int(x.user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		x.s.T.Fatal(err)
	}
}

// shows waits until the screen has all of these texts.
func (x *topScreen) shows(texts ...string) {
	x.s.T.Helper()
	for _, text := range texts {
		x.seen.Await(x.s.T, text, 1)
	}
}

// asked is what the screen has of the SN that it asks: the label is faint, and the name is not.
func asked(pod int) string { return fmt.Sprintf("SN asked \x1b[msn-%d", pod) }

// types types keys.
func (x *topScreen) types(keys string) {
	x.s.T.Helper()
	if _, err := x.user.WriteString(keys); err != nil {
		x.s.T.Fatal(err)
	}
}

// quits types q, and holds that the screen ends well and the terminal is as it was.
func (x *topScreen) quits() {
	x.s.T.Helper()
	x.types("q")
	select {
	case err := <-x.ended:
		if err != nil {
			x.s.T.Errorf("swarmctl top: %v", err)
		}
	case <-time.After(10 * time.Second):
		x.s.T.Fatal("swarmctl top does not end")
	}
	x.shows("\x1b[?1049l", "\x1b[?25h")
	if x.mode() != x.before {
		x.s.T.Error("swarmctl top leaves the terminal in another mode")
	}
}
