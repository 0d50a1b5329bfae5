package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/netns"
)

// prefix begins the names of all temporary folders of this package; the ID of the process that made one follows.
const prefix = "swarmd-chaos-"

const (
	snDisk = "256m" // of which the log of raft allocates 64 MiB at a time
	slDisk = "64m"
)

// cluster is the swarm under test. Its methods are for one goroutine.
type cluster struct {
	cfg       Config
	block     block
	dir       string // temporary: state
	shm       string // of the bridges
	net       *netns.Net
	operator  *netns.Host
	authority *node
	sns, sls  []*node // the last SL is the late one
	lateSN    *node
	mounts    []string
}

// newCluster makes folders and networks and starts nothing. Without error close must be called.
func newCluster(cfg Config) (*cluster, error) {
	sweep()
	c := &cluster{cfg: cfg}
	var err error
	if c.dir, err = tempDir("/tmp"); err != nil {
		return nil, err
	}
	if c.shm, err = tempDir("/dev/shm"); err != nil {
		c.shm = filepath.Join(c.dir, "shm") // A machine without shared memory has slower weight files.
	}
	if !cfg.root() {
		c.block, err = takeBlock()
	} else if c.net, err = netns.New(); err == nil {
		c.operator, err = c.net.Add()
	}
	if err == nil {
		err = c.addNodes()
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// block is a /16 of loopback addresses, which a driver has for itself while the listener is open.
type block struct {
	number int
	held   net.Listener
}

func takeBlock() (block, error) {
	var last error
	for i := range 56 {
		b := block{number: 193 + (os.Getpid()+i)%56}
		if b.held, last = net.Listen("tcp", fmt.Sprintf("127.%d.0.1:30302", b.number)); last == nil {
			return b, nil
		}
	}
	return block{}, fmt.Errorf("no block of loopback addresses is free: %w", last)
}

// tempDir makes a directory whose name does not begin another one's: strays are found by it.
func tempDir(parent string) (string, error) {
	for i := 1; ; i++ {
		dir := filepath.Join(parent, fmt.Sprintf("%s%d.%d.", prefix, os.Getpid(), i))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, os.ErrExist) {
			return dir, err
		}
	}
}

// sweep removes what drivers left that were killed.
func sweep() {
	for _, parent := range []string{"/tmp", "/dev/shm"} {
		found, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
		for _, dir := range found {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), ".")
			if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
				disks, _ := filepath.Glob(filepath.Join(dir, "s[nl][0-9]*"))
				for _, disk := range disks {
					_ = unix.Unmount(disk, unix.MNT_DETACH)
				}
				_ = os.RemoveAll(dir) // The next one tries again.
			}
		}
	}
}

func (c *cluster) addNodes() error {
	ca := filepath.Join(c.dir, "ca")
	c.authority = &node{name: "authority", state: c.dir, call: call{argv: []string{c.binary("swarmd"), "run-authority", "--dir", ca}}}
	all := []*node{c.authority}
	for i := range c.cfg.SNs + 1 {
		n, err := c.add(snName(i), i+1, snDisk)
		if err != nil {
			return err
		}
		if i < c.cfg.SNs {
			c.sns = append(c.sns, n)
		} else {
			c.lateSN = n
		}
		n.call.argv = []string{
			c.binary("swarmd"), "run-sn", "--name", n.name, "--host-ip", n.addr, "--sentinel-ip", c.sns[0].addr, "--state-dir", n.state,
			"--identity", "embedded=" + ca, "--full-quorum-wait", "2s", "--stall-grace", "3s",
		}
	}
	for i := range c.cfg.SLs + 1 {
		n, err := c.add(slName(i), 11+i, slDisk)
		if err != nil {
			return err
		}
		c.sls = append(c.sls, n)
		n.bridge = filepath.Join(c.shm, n.name)
		n.call.argv = []string{
			c.binary("swarmd"), "run-sl", "--name", n.name, "--host-ip", n.addr, "--sn-ip", c.sns[i%len(c.sns)].addr, "--state-dir", n.state,
			"--identity", "embedded=" + ca, "--bridge-dir", n.bridge, "--expected-peers", fmt.Sprint(c.cfg.SLs),
			"--full-quorum-wait", "2s", "--stall-grace", "3s", "--model-dir", c.cfg.Dir, "--model-program", c.cfg.Program,
			"--python", c.cfg.Program, "--sl-platform", "PYT", "-e", envDir + "=" + c.cfg.Dir, "-e", envPace + "=" + c.cfg.Pace.String(),
			"-e", envFloats + "=" + fmt.Sprint(c.cfg.Floats),
		}
	}
	for _, n := range append(all, c.nodes()...) {
		if err := n.supervise(c.cfg.Dir); err != nil {
			return err
		}
	}
	return nil
}

// add makes a node's place.
func (c *cluster) add(name string, number int, size string) (*node, error) {
	n := &node{name: name, state: filepath.Join(c.dir, strings.ReplaceAll(name, "-", "")), addr: fmt.Sprintf("127.%d.1.%d", c.block.number, number)}
	if err := os.Mkdir(n.state, 0o700); err != nil {
		return nil, err
	}
	if !c.cfg.root() {
		return n, nil
	}
	if err := unix.Mount("tmpfs", n.state, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		return nil, fmt.Errorf("mount a file system at %s: %w", n.state, err)
	}
	c.mounts = append(c.mounts, n.state)
	var err error
	if n.host, err = c.net.Add(); err != nil {
		return nil, err
	}
	n.addr = n.host.Addr
	return n, nil
}

func (c *cluster) binary(name string) string { return filepath.Join(c.cfg.Bin, name) }

// start brings up the authority and the SNs, one after the other, and the SLs.
func (c *cluster) start() error {
	c.authority.start()
	for _, n := range c.sns {
		n.start()
		if !n.await(timeout, func() bool { return n.out.serving }) {
			return fmt.Errorf("%s does not serve within %s: see %s.log", n.name, timeout, n.name)
		}
	}
	c.startSLs()
	return nil
}

func (c *cluster) startSLs() {
	for _, n := range c.sls[:c.cfg.SLs] {
		n.start()
	}
}

// swarmctl asks one SN, or the first one.
func (c *cluster) swarmctl(limit time.Duration, at *node, args ...string) (string, error) {
	if at == nil {
		at = c.sns[0]
	}
	argv := append([]string{c.binary("swarmctl")}, args...)
	argv = append(argv, "--identity", "embedded="+filepath.Join(c.dir, "ca"))
	if at != offline {
		argv = append(argv, "--sn", at.addr)
	}
	if c.operator != nil {
		argv = c.operator.Command(argv...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.WaitDelay = environ(c.dir), time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// identifies reports whether the authority gives swarmctl an identity. One that was killed last is back a moment later.
func (c *cluster) identifies() bool {
	conn, err := net.Dial("unix", filepath.Join(c.dir, "ca", "swci.sock"))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// offline stands for no SN.
var offline = &node{}

// node finds one by name.
func (c *cluster) node(name string) *node {
	for _, n := range c.nodes() {
		if n.name == name {
			return n
		}
	}
	return nil
}

// nodes are all SNs, then all SLs, the late ones among them.
func (c *cluster) nodes() []*node {
	return slices.Concat(c.sns, []*node{c.lateSN}, c.sls)
}

// leader is the SN that leads, the first one while none says so.
func (c *cluster) leader() *node {
	for _, n := range append(slices.Clone(c.sns), c.lateSN) {
		if n.leads() {
			return n
		}
	}
	return c.sns[0]
}

// close ends everything and removes what it made. The error says what could not be removed.
func (c *cluster) close() error {
	for _, n := range slices.Backward(c.nodes()) {
		if n != nil {
			n.quit()
		}
	}
	if c.authority != nil {
		c.authority.quit()
	}
	if c.block.held != nil {
		_ = c.block.held.Close()
	}
	var errs []error
	for _, dir := range c.mounts {
		errs = append(errs, unix.Unmount(dir, unix.MNT_DETACH))
	}
	if c.net != nil {
		errs = append(errs, c.net.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir), os.RemoveAll(c.shm))...)
}
