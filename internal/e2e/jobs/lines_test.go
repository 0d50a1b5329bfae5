package jobs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writes is a program that adds a line to a file each 100 ms, from whichever host, so that it is seen from outside which members run beside one
// another. In the first epoch it has no end, not even if it is asked to; in others it ends when there is another file.
const writes = `import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
epoch, rank = os.environ["SWARM_EPOCH"], os.environ["SWARM_NODE_RANK"]
f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while epoch == "0" or not os.path.exists(sys.argv[2]):
    os.write(f, f"{epoch} {rank} {time.monotonic_ns()}\n".encode())
    time.sleep(0.1)
`

// line is one that a member has written.
type line struct {
	epoch, rank int
	at          time.Duration // by the machine's clock that nobody sets
}

// now is the clock of lines.
func now(t *testing.T) time.Duration {
	t.Helper()
	var s unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &s); err != nil {
		t.Fatal(err)
	}
	return time.Duration(s.Nano())
}

// lines are those of a file, in the order in which they were written.
func lines(t *testing.T, file string) (all []line) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(raw)) {
		var l line
		if _, err := fmt.Sscanf(text, "%d %d %d", &l.epoch, &l.rank, &l.at); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		all = append(all, l)
	}
	return all
}

// of reports whether so many ranks have written in an epoch.
func of(all []line, epoch, ranks int) bool {
	seen := map[int]bool{}
	for _, l := range all {
		if l.epoch == epoch {
			seen[l.rank] = true
		}
	}
	return len(seen) == ranks
}

// last is when a rank wrote in an epoch for the last time, and first when anybody did for the first.
func last(all []line, epoch, rank int) (at time.Duration) {
	for _, l := range all {
		if l.epoch == epoch && l.rank == rank {
			at = l.at
		}
	}
	return at
}

func first(all []line, epoch int) time.Duration {
	for _, l := range all {
		if l.epoch == epoch {
			return l.at
		}
	}
	return 0
}

// inOrder wants that nobody writes once a later epoch has begun.
func inOrder(t *testing.T, all []line) {
	t.Helper()
	for i := 1; i < len(all); i++ {
		if all[i].epoch < all[i-1].epoch {
			t.Errorf("rank %d of epoch %d still runs beside rank %d of epoch %d", all[i].rank, all[i].epoch, all[i-1].rank, all[i-1].epoch)
			return
		}
	}
}
