package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	x.seen = terminaltest.Watch(x.user)
	x.resize(40, 120)
	x.before = x.mode()
	cmd := exec.Command(filepath.Join(e2etest.BinDir, "swarmctl"), args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.Dir, "TERM=xterm-256color"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.tty, x.tty, x.tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	go func() { x.ended <- cmd.Wait() }()
	s.T.Cleanup(func() {
		if s.T.Failed() {
			s.T.Logf("the screen:\n%s", x.seen.Now())
		}
	})
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
	x.seen.Resize(int(rows), int(columns))
	if err := unix.IoctlSetWinsize(int(x.user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		x.s.T.Fatal(err)
	}
}

// shows waits until a user sees all of these texts at once.
func (x *topScreen) shows(texts ...string) {
	x.s.T.Helper()
	x.s.Until(fmt.Sprintf("screen with %q", texts), func() bool {
		now := x.seen.Now()
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(now, text) })
	})
}

// keeps holds for a time that the screen has one text, and not another, at any moment.
func (x *topScreen) keeps(has, lacks string, long time.Duration) {
	x.s.T.Helper()
	end := time.Now().Add(long)
	x.s.Until("end of the time", func() bool {
		if now := x.seen.Now(); !strings.Contains(now, has) || strings.Contains(now, lacks) {
			x.s.T.Fatalf("the screen has no %q, or has %q:\n%s", has, lacks, now)
		}
		return time.Now().After(end)
	})
}

// row is the line of a node in the first table that has these titles; empty: there is none.
func (x *topScreen) row(title, node string) string {
	_, table, _ := strings.Cut(x.seen.Now(), "\n"+title+" ")
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, node+" ") {
			return line
		}
	}
	return ""
}

// agrees waits until the peers' figures are those that swarmctl prints at a pod.
func (x *topScreen) agrees(pod int) {
	x.s.T.Helper()
	x.s.Until("the peers' figures as swarmctl prints them", func() bool {
		code, out := x.s.at(pod, "get", "contract", "status", "e2e", "-o", "json")
		var status struct {
			Sessions []struct {
				Node, Phase  string
				Round        uint64
				Loss, Metric *float64
				Done         uint32 `json:"epochs_done"`
				Total        uint32 `json:"total_epochs"`
			}
		}
		if err := json.Unmarshal([]byte(out), &status); code != 0 || err != nil {
			return false
		}
		for _, p := range status.Sessions {
			if p.Loss == nil || p.Metric == nil || p.Done == 0 {
				return false
			}
			want := fmt.Sprintf("%s %s %d %d/%d %.4f", p.Node, p.Phase, p.Round, p.Done, p.Total, *p.Loss)
			if shown := strings.Join(strings.Fields(x.row("PEER", p.Node)), " "); !strings.HasPrefix(shown, want+" ") {
				return false
			}
		}
		return len(status.Sessions) > 0
	})
}

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
	x.seen.Await(x.s.T, "\x1b[?1049l", 1)
	x.seen.Await(x.s.T, "\x1b[?25h", 1)
	if x.mode() != x.before {
		x.s.T.Error("swarmctl top leaves the terminal in another mode")
	}
}
