package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/netns"
)

const (
	firstBackoff = 100 * time.Millisecond // systemd's RestartSec
	mostBackoff  = 2 * time.Second
	settled      = 10 * time.Second // who ran for so long starts without a longer backoff
	timeout      = 60 * time.Second // for what must come
)

// node is a process that a supervisor keeps alive, as systemd does under Restart=on-failure: what ends with another exit code
// than 0, or by a signal, is started again; what ended well stays down.
type node struct {
	name   string
	addr   string
	host   *netns.Host // nil: on loopback
	state  string
	bridge string // of an SL
	call   call
	out    output

	mu       sync.Mutex
	wanted   bool
	process  *os.Process
	restarts int           // that nobody asked for
	changed  chan struct{} // closed and replaced when wanted or process changes
	stopping chan struct{} // closed: the supervisor ends
	over     chan struct{} // closed when it has ended
}

// call is how the daemon is started.
type call struct {
	argv     []string
	extra    []string // arguments of the next starts
	training []string // arguments of this training
}

func (c *call) line() []string { return slices.Concat(c.argv, c.training, c.extra) }

// output is what the daemon that runs now has said.
type output struct {
	log     *os.File
	partial []byte
	program int // process ID
	leading bool
	serving bool // an SN whose API answers, or an SL that an SN knows
}

// begin forgets what an earlier process said.
func (o *output) begin() { *o = output{log: o.log} }

// take takes output as it comes, and reports whether the daemon serves since.
func (o *output) take(p []byte) (serves bool) {
	o.partial = append(o.partial, p...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte{'\n'})
		if !found {
			return serves
		}
		serves = o.read(string(line)) || serves
		o.partial = rest
	}
}

func (o *output) read(line string) (serves bool) {
	if strings.Contains(line, "raft leadership changed") {
		o.leading = strings.Contains(line, "leading=true")
	}
	if strings.Contains(line, "Starting SWARM-API-SERVER") || strings.Contains(line, "registered with the swarm") {
		o.serving, serves = true, true
	}
	if m := programLine.FindStringSubmatch(line); m != nil {
		o.program, _ = strconv.Atoi(m[1])
	}
	return serves
}

// note writes a line of the driver's own into the node's log.
func (o *output) note(what string) {
	fmt.Fprintf(o.log, "%s ==== %s\n", time.Now().UTC().Format("15:04:05.000"), what)
}

// supervise runs the node until quit. It returns at once.
func (n *node) supervise(logDir string) error {
	log, err := os.OpenFile(filepath.Join(logDir, n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n.out.log, n.changed, n.stopping, n.over = log, make(chan struct{}), make(chan struct{}), make(chan struct{})
	go n.keep()
	return nil
}

// keep is the supervisor.
func (n *node) keep() {
	defer close(n.over)
	backoff := firstBackoff
	for {
		n.mu.Lock()
		wanted, changed := n.wanted, n.changed
		n.mu.Unlock()
		if !wanted {
			select {
			case <-changed:
				backoff = firstBackoff
				continue
			case <-n.stopping:
				return
			}
		}
		begun := time.Now()
		ok := n.once()
		n.mu.Lock()
		if ok {
			n.wanted = false // its work is done
		} else if n.wanted {
			n.restarts++
		}
		n.mu.Unlock()
		if time.Since(begun) > settled {
			backoff = firstBackoff
		}
		select {
		case <-time.After(backoff):
		case <-n.stopping:
			return
		}
		backoff = min(2*backoff, mostBackoff)
	}
}

// once runs the process to its end and reports whether that was a good one.
func (n *node) once() bool {
	n.mu.Lock()
	argv := n.call.line()
	n.out.begin()
	if !n.wanted {
		n.mu.Unlock()
		return false
	}
	if n.host != nil {
		argv = n.host.Command(argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = environ(n.state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 2 * time.Second
	cmd.Stdout, cmd.Stderr = n, n
	n.out.note("start")
	err := cmd.Start()
	if err == nil {
		n.process = cmd.Process
	}
	n.signalChange()
	n.mu.Unlock()
	if err != nil {
		n.out.note(err.Error())
		return false
	}
	err = cmd.Wait()
	n.out.note("end: " + cmd.ProcessState.String())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process, n.out.leading, n.out.serving = nil, false, false
	n.signalChange()
	return err == nil && cmd.ProcessState.Success()
}

// environ is a small environment, so that the user's own does not leak in.
func environ(home string) []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home}
}

func (n *node) signalChange() {
	close(n.changed)
	n.changed = make(chan struct{})
}

var programLine = regexp.MustCompile(`program started.* pid=(\d+)`)

// Write takes the node's output: it is kept, and says who leads and which process is the program.
func (n *node) Write(p []byte) (int, error) {
	_, _ = n.out.log.Write(p) // The run matters more than its log.
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.out.take(p) {
		n.signalChange()
	}
	return len(p), nil
}

// start wants the node up, with more arguments than its usual ones.
func (n *node) start(extra ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted, n.call.extra = true, extra
	n.signalChange()
}

// trains has the node's next starts be of a training: an SL that has finished one starts the same program no more.
func (n *node) trains(contract string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.call.training = []string{"-e", envContract + "=" + contract}
}

// signal sends a signal to the daemon alone, if there is one.
func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		_ = n.process.Signal(s) // It may just have ended.
	}
}

// stop asks the node to end, as systemctl stop does, and waits.
func (n *node) stop(s syscall.Signal) error {
	n.mu.Lock()
	n.wanted = false
	if n.process != nil {
		_ = n.process.Signal(s) // It may just end.
	}
	n.mu.Unlock()
	if !n.await(timeout, func() bool { return n.process == nil }) {
		n.signal(syscall.SIGQUIT) // What it does is in the log then.
		return fmt.Errorf("%s does not end within %s of %s", n.name, timeout, s)
	}
	return nil
}

// await waits until is, which is called with the lock.
func (n *node) await(limit time.Duration, is func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		n.mu.Lock()
		done, changed := is(), n.changed
		n.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// quit ends the node and its supervisor at once.
func (n *node) quit() {
	if n.over == nil {
		return
	}
	close(n.stopping)
	n.mu.Lock()
	n.wanted = false
	if n.process != nil {
		_ = n.process.Kill()
	}
	n.mu.Unlock()
	<-n.over
	_ = n.out.log.Close()
}

// pids returns the process IDs of daemon and program, 0 for one that does not run.
func (n *node) pids() (daemon, program int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0, 0
	}
	daemon = n.process.Pid
	if n.out.program > 0 && parentOf(n.out.program) == daemon {
		program = n.out.program
	}
	return daemon, program
}

// parentOf returns a process's parent, 0 if it is gone.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	ppid, _ := strconv.Atoi(statusField(text, "PPid:"))
	return ppid
}

// statusField returns a field of /proc/PID/status.
func statusField(text []byte, name string) string {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSuffix(strings.TrimSpace(rest), " kB")
		}
	}
	return ""
}

func (n *node) up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted
}

func (n *node) leads() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.leading && n.process != nil
}
