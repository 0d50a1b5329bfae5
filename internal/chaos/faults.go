package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/netns"
)

// nothing ends a fault that is over when it is done.
func nothing() error { return nil }

func kill(c *cluster, f Fault) (func() error, error) {
	c.node(f.Node).signal(syscall.SIGKILL)
	return nothing, nil
}

// away stops a node as an operator does, who starts it later.
func away(c *cluster, f Fault) (func() error, error) {
	n := c.node(f.Node)
	return started(n), n.stop(syscall.SIGTERM)
}

func started(nodes ...*node) func() error {
	return func() error {
		for _, n := range nodes {
			n.start()
		}
		return nil
	}
}

func freeze(c *cluster, f Fault) (func() error, error) {
	n := c.node(f.Node)
	daemon, _ := n.pids()
	return freezePID(daemon)
}

func freezePID(pid int) (func() error, error) {
	if pid == 0 {
		return nothing, nil
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP) // It may just have ended.
	return func() error {
		_ = syscall.Kill(pid, syscall.SIGCONT)
		return nil
	}, nil
}

// fillDisk leaves no byte on the node's disk.
func fillDisk(c *cluster, f Fault) (func() error, error) {
	ballast := filepath.Join(c.node(f.Node).state, "ballast")
	end := func() error { return os.Remove(ballast) }
	file, err := os.Create(ballast)
	if err != nil {
		return nothing, err
	}
	defer file.Close()
	var at int64
	for piece := int64(64 << 20); piece >= 4096; {
		if err := unix.Fallocate(int(file.Fd()), 0, at, piece); err != nil {
			piece /= 2
			continue
		}
		at += piece
	}
	return end, nil
}

// wipe takes a node's disk. When it is back with an empty one an operator frees its name.
func wipe(c *cluster, f Fault) (func() error, error) {
	n := c.node(f.Node)
	err := errors.Join(n.stop(syscall.SIGKILL), n.erase())
	return func() error {
		var join []string
		for _, sn := range c.sns {
			if sn != n && slices.Contains(c.sns, n) {
				join = append(join, "--join", sn.addr)
			}
		}
		err := forget(c, n)
		n.start(join...)
		return err
	}, err
}

// erase empties the state directory of a node that does not run.
func (n *node) erase() error {
	entries, err := os.ReadDir(n.state)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.state, e.Name())))
	}
	return err
}

// forget frees the name of a node that does not run, at an SN that answers. One that the swarm never heard of needs nothing.
func forget(c *cluster, n *node) error {
	var out string
	at := 0
	err := poll(timeout, func() (err error) {
		others := slices.DeleteFunc(slices.Clone(c.sns), func(sn *node) bool { return sn == n })
		out, err = c.swarmctl(10*time.Second, others[at%len(others)], "forget", "node", n.name)
		if at++; strings.Contains(out, "no node") {
			err = nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("forget node %s: %w: %s", n.name, err, strings.TrimSpace(out))
	}
	return nil
}

// poll repeats what may fail for a while.
func poll(limit time.Duration, do func() error) error {
	for deadline := time.Now().Add(limit); ; {
		err := do()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(200 * time.Millisecond)
	}
}

// slow gives a node's link 1 to 20 Mbit/s.
func slow(c *cluster, f Fault) (func() error, error) {
	h := c.node(f.Node).host
	return h.Unlimit, h.Limit(int64(1+f.Draw%20) * 1_000_000)
}

func killLeader(c *cluster, _ Fault) (func() error, error) {
	c.leader().signal(syscall.SIGKILL)
	return nothing, nil
}

func isolateLeader(c *cluster, _ Fault) (func() error, error) { return part(c.leader()) }

// isolateMajority leaves the SN that leads alone with the SLs; the others reach nobody but one another.
func isolateMajority(c *cluster, _ Fault) (func() error, error) {
	var others []*node
	leader := c.leader()
	for _, n := range c.sns {
		if n != leader {
			others = append(others, n)
		}
	}
	return part(others...)
}

func unplug(c *cluster, f Fault) (func() error, error) {
	nodes := []*node{c.node(f.Node)}
	if f.Peer != "" {
		nodes = append(nodes, c.node(f.Peer))
	}
	return part(nodes...)
}

func part(nodes ...*node) (func() error, error) {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.host.Part())
	}
	return func() error {
		var errs []error
		for _, n := range nodes {
			errs = append(errs, n.host.Rejoin())
		}
		return errors.Join(errs...)
	}, errors.Join(errs...)
}

func killSNs(c *cluster, _ Fault) (func() error, error) { return killThem(c.sns) }

func killSLs(c *cluster, _ Fault) (func() error, error) { return killThem(c.sls) }

func killAll(c *cluster, _ Fault) (func() error, error) {
	return killThem(append(slices.Clone(c.sns), c.sls...))
}

func killThem(nodes []*node) (func() error, error) {
	for _, n := range nodes {
		n.signal(syscall.SIGKILL)
	}
	return nothing, nil
}

// freezeSNs and fillSNs do to all SNs what others do to one.
func freezeSNs(c *cluster, f Fault) (func() error, error) { return toSNs(c, f, freeze) }

func fillSNs(c *cluster, f Fault) (func() error, error) { return toSNs(c, f, fillDisk) }

func toSNs(c *cluster, f Fault, begin func(*cluster, Fault) (func() error, error)) (func() error, error) {
	var ends []func() error
	var errs []error
	for _, n := range c.sns {
		f.Node = n.name
		end, err := begin(c, f)
		ends, errs = append(ends, end), append(errs, err)
	}
	return func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}, errors.Join(errs...)
}

// split leaves the SN that leads with every other SL.
func split(c *cluster, f Fault) (func() error, error) {
	nodes := []*node{c.leader()}
	for i, n := range c.sls {
		if i%2 == int(f.Draw%2) { //nolint:gosec // 0 or 1
			nodes = append(nodes, n)
		}
	}
	return part(nodes...)
}

func awaySNs(c *cluster, _ Fault) (func() error, error) {
	var errs []error
	for _, n := range c.sns {
		errs = append(errs, n.stop(syscall.SIGTERM))
	}
	return started(c.sns...), errors.Join(errs...)
}

// withoutSN restarts an SL while the SN is down with which it registers usually. It must find another one.
func withoutSN(c *cluster, f Fault) (func() error, error) {
	n := c.node(f.Node)
	sn := c.sns[slices.Index(c.sls, n)%len(c.sns)]
	err := errors.Join(sn.stop(syscall.SIGKILL), n.stop(syscall.SIGKILL))
	n.start()
	return func() error {
		defer sn.start()
		if !n.await(timeout, func() bool { return n.out.serving }) {
			return fmt.Errorf("%s does not find the swarm while %s is down", n.name, sn.name)
		}
		return nil
	}, err
}

// joinSN has one more SN take part for a while, and vote. What is stopped then is forgotten, by its disk too: its vote would count for the
// majority for ever.
func joinSN(c *cluster, f Fault) (func() error, error) {
	n := c.node(f.Node)
	n.start()
	return func() error { return errors.Join(n.stop(syscall.SIGTERM), n.erase(), forget(c, n)) }, nil
}

// join has one more SL take part for a while.
func join(c *cluster, f Fault) (func() error, error) {
	n := c.node(f.Node)
	n.start()
	return func() error { return n.stop(syscall.SIGTERM) }, nil
}

func killProgram(c *cluster, f Fault) (func() error, error) {
	return signalProgram(c, f, syscall.SIGKILL)
}

func termProgram(c *cluster, f Fault) (func() error, error) {
	return signalProgram(c, f, syscall.SIGTERM)
}

func signalProgram(c *cluster, f Fault, s syscall.Signal) (func() error, error) {
	if _, program := c.node(f.Node).pids(); program > 0 {
		_ = syscall.Kill(program, s) // It may just have ended.
	}
	return nothing, nil
}

func freezeProgram(c *cluster, f Fault) (func() error, error) {
	_, program := c.node(f.Node).pids()
	return freezePID(program)
}

// slots does something to weight files of a node. One that is not there is left alone.
func slots(c *cluster, f Fault, names []string, do func(path string, size int64) error) error {
	for _, name := range names {
		path := filepath.Join(c.node(f.Node).bridge, name)
		info, err := os.Stat(path)
		if err == nil {
			err = do(path, info.Size())
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func truncate(names ...string) func(*cluster, Fault) (func() error, error) {
	return func(c *cluster, f Fault) (func() error, error) {
		return nothing, slots(c, f, names, func(path string, size int64) error {
			return os.Truncate(path, int64(f.Draw%uint64(max(size, 1)))) //nolint:gosec // below size
		})
	}
}

func extend(names ...string) func(*cluster, Fault) (func() error, error) {
	return func(c *cluster, f Fault) (func() error, error) {
		return nothing, slots(c, f, names, func(path string, size int64) error {
			return os.Truncate(path, size+1+int64(f.Draw%10_000)) //nolint:gosec // small
		})
	}
}

func removeSlots(c *cluster, f Fault) (func() error, error) {
	return nothing, slots(c, f, []string{"local", "merged-0", "merged-1"}, func(path string, _ int64) error { return os.Remove(path) })
}

// garble writes random bytes into weight files again and again until the fault ends.
func garble(names ...string) func(*cluster, Fault) (func() error, error) {
	return func(c *cluster, f Fault) (func() error, error) {
		rng := rand.New(rand.NewPCG(f.Draw, 0)) //nolint:gosec // garbage is no secret
		return again(20*time.Millisecond, func() error {
			return slots(c, f, names, func(path string, size int64) error { return scribble(rng, path, size) })
		}), nil
	}
}

// again does something at once and again and again, until the function is called that it returns.
func again(pause time.Duration, do func() error) (end func() error) {
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			err := do()
			select {
			case <-quit:
				done <- err
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() error {
		close(quit)
		return <-done
	}
}

// scribble changes the lowest byte of some floats, which stay finite.
func scribble(rng *rand.Rand, path string, size int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	for range 8 {
		if _, err := file.WriteAt([]byte{byte(rng.IntN(256))}, rng.Int64N(max(size/4, 1))*4); err != nil { //nolint:gosec // a byte
			return err
		}
	}
	return nil
}

func cut(c *cluster, f Fault) (func() error, error) {
	return between(c, f, (*netns.Host).Cut, (*netns.Host).Heal)
}

// flap cuts a link and mends it, a few times a second.
func flap(c *cluster, f Fault) (func() error, error) {
	a, b := c.node(f.Node).host, c.node(f.Peer).host
	dead := false
	turn := func() error {
		dead = !dead
		if dead {
			return a.Cut(b)
		}
		return a.Heal(b)
	}
	stop := again(time.Duration(100+f.Draw%400)*time.Millisecond, turn)
	return func() error {
		err := stop()
		if dead {
			err = errors.Join(err, turn())
		}
		return err
	}, nil
}

func deafen(c *cluster, f Fault) (func() error, error) {
	return between(c, f, (*netns.Host).Deafen, (*netns.Host).Hear)
}

func between(c *cluster, f Fault, begin, end func(a, b *netns.Host) error) (func() error, error) {
	a, b := c.node(f.Node).host, c.node(f.Peer).host
	return func() error { return end(a, b) }, begin(a, b)
}

// killAuthority takes for a while what identities come from.
func killAuthority(c *cluster, _ Fault) (func() error, error) {
	return started(c.authority), c.authority.stop(syscall.SIGKILL)
}
