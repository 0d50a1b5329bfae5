package procs

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/pause"
)

const (
	maxKilled = 1 << 10 // processes at a time
	endPause  = 50 * time.Millisecond
)

// EndWith kills the processes that have a variable of this value in their environment, and blocks until there is none.
func EndWith(ctx context.Context, name, value string) error {
	for {
		all, err := With(name, value)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, pid := range all {
			kill(pid, func(pid int) bool { return has(pid, name+"="+value) })
		}
		if pause.For(ctx, endPause) != nil {
			return fmt.Errorf("process %d does not end: %w", all[0], ctx.Err())
		}
	}
}

// KillTree kills a process and, as long as ctx has not ended, those that it has started, if they are among those that are meant. It reports whether it could
// kill the first.
func KillTree(ctx context.Context, pid int, is func(pid int) bool) bool {
	by, _ := started(ctx) // what is not found may go on
	return killAll(ctx, pid, by, func(pid int) bool { return kill(pid, is) })
}

// killAll is KillTree for processes by their parents.
func killAll(ctx context.Context, pid int, by map[int][]int, kill func(pid int) bool) bool {
	all := []int{pid}
	for i := 0; i < len(all) && len(all) < maxKilled; i++ {
		all = append(all, by[all[i]]...)
	}
	killed := kill(pid)
	for _, pid := range all[1:] {
		if ctx.Err() != nil {
			break
		}
		kill(pid)
	}
	return killed
}

// kill kills a process that is one of those that are meant, and no other that has its number by now. It reports whether it could, and that it is none
// or that another user's can't be killed the next look sees.
func kill(pid int, is func(pid int) bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false // it has gone
	}
	defer unix.Close(fd)
	return is(pid) && unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0) == nil
}
