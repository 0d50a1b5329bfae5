package runjob

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/consensus/task"
)

// leaseFile says until when members may run: all of a host's, by the clock of its kernel.
const leaseFile = "lease"

const (
	leaseFor  = task.LeaseMS * time.Millisecond
	leaseLook = time.Second // between two looks at it

	// sweepAfter is how old a file is that nobody will put in its place any more.
	sweepAfter = time.Minute
)

// Lease lets the members of this host run until then, by their keepers, which end them after it: also where this process is stopped, or killed and
// never started again.
func (p *Processes) Lease(until time.Time) error {
	return writeLease(p.Dir, until)
}

// leaseText is what the file has: the time since the machine was started.
func leaseText(until time.Time) ([]byte, error) {
	now, err := sinceBoot()
	return strconv.AppendInt(nil, int64(now+time.Until(until)), 10), err
}

// lease is what a keeper knows of it.
type lease struct {
	file  string
	until time.Duration // since the machine was started
}

// newLease is one that begins now.
func newLease(file string) (l lease, err error) {
	now, err := sinceBoot()
	return lease{file, now + leaseFor}, err
}

// over reports whether the lease has ended. What can't be read says nothing new.
func (l *lease) over() bool {
	if raw, err := os.ReadFile(l.file); err == nil {
		if until, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil {
			l.until = time.Duration(until)
		}
	}
	now, err := sinceBoot()
	return err == nil && now >= l.until
}

// watch blocks until a program is done, or is to end, and reports whether that is for the lease.
func (l *lease) watch(done <-chan struct{}, end <-chan os.Signal) bool {
	looks := time.NewTicker(leaseLook)
	defer looks.Stop()
	for {
		select {
		case <-done:
			return false
		case <-end:
			return false
		case <-looks.C:
			if l.over() {
				return true
			}
		}
	}
}

// sinceBoot is a clock that all processes of a machine share, that nobody sets, and that counts while the machine sleeps.
func sinceBoot() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
