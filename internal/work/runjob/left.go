package runjob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/pause"
)

// ownVariable names the directory of a member to each of its processes, by which they are found when their keeper was killed.
const ownVariable = "SWARM_MEMBER_DIR"

const (
	maxEnviron = 4 << 20 // bytes of a process's environment that are looked at
	maxStat    = 4 << 10
	leftPause  = 50 * time.Millisecond
)

// pids are the processes of this host.
func pids() (all []int, err error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// of reads a file of a process. One that has gone has none.
func of(pid int, name string, most int64) []byte {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return nil
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return raw
}

// children are the processes of which one is the parent.
func children(parent int) (found []int, err error) {
	all, err := started(context.Background())
	return all[parent], err
}

// started are the processes of this host by their parents, as far as they can be read before ctx ends.
func started(ctx context.Context) (by map[int][]int, err error) {
	all, err := pids()
	by = map[int][]int{}
	for _, pid := range all {
		if ctx.Err() != nil {
			return by, ctx.Err()
		}
		stat := of(pid, "stat", maxStat)
		// The name stands in parentheses and may hold anything; behind it are the state and the parent.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			by[parent] = append(by[parent], pid)
		}
	}
	return by, err
}

// endLeft kills the processes of a member that are left without their keeper, and blocks until there is none.
func endLeft(ctx context.Context, dir string) error {
	for {
		all, err := leftOf(dir)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, pid := range all {
			killIf(pid, func(pid int) bool { return has(pid, dir) })
		}
		if pause.For(ctx, leftPause) != nil {
			return fmt.Errorf("process %d of %s does not end: %w", all[0], filepath.Base(dir), ctx.Err())
		}
	}
}

// leftOf are the processes that a member has.
func leftOf(dir string) (found []int, err error) {
	all, err := pids()
	for _, pid := range all {
		if pid != os.Getpid() && has(pid, dir) {
			found = append(found, pid)
		}
	}
	return found, err
}

// has reports whether a process is a member's. One that has ended has no environment any more.
func has(pid int, dir string) bool {
	want := []byte(ownVariable + "=" + dir)
	for kv := range bytes.SplitSeq(of(pid, "environ", maxEnviron), []byte{0}) {
		if bytes.Equal(kv, want) {
			return true
		}
	}
	return false
}

// killIf kills a process that is one of those that are meant, and no other that has its number by now. It reports whether it could, and that it is none
// or that another user's can't be killed the next look sees.
func killIf(pid int, is func(pid int) bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false // it has gone
	}
	defer unix.Close(fd)
	return is(pid) && unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0) == nil
}
