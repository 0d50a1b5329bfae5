package figures

import (
	"context"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/work/gpus"
)

// answerTimeout is how long a disk and a driver have to answer: one that hangs may not hold up the rest.
const answerTimeout = 5 * time.Second

// Open is what is open between a node and others. Peers is below 0 if that is not known.
type Open struct{ Out, In, Peers int }

// taker takes the figures of this machine and this process. It is safe for concurrent use.
type taker struct {
	proc  proc
	began time.Time
	now   func() time.Time
	open  func() Open
	gpus  func() []string // names of those that the daemon sees

	disk   asker[*unix.Statfs_t]
	driver asker[[]driven]
}

func newTaker(dir string, open func() Open) *taker {
	return &taker{
		proc: "/proc", began: time.Now(), now: time.Now, open: open, gpus: func() []string { return gpus.Seen(os.LookupEnv) },
		disk:   asker[*unix.Statfs_t]{ask: func() *unix.Statfs_t { return diskOf(dir) }},
		driver: asker[[]driven]{ask: func() []driven { return readDriver(askDriver()) }},
	}
}

// take takes them now.
func (t *taker) take(ctx context.Context) Figures {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	now, load := t.now(), t.proc.load()
	f := Figures{
		TakenAt: now.UTC().Format(time.RFC3339), UpSeconds: natural(now.Sub(t.began) / time.Second), CPUs: natural(runtime.NumCPU()),
		Load1: load[0], Load5: load[1], Load15: load[2], CPUSeconds: processorTime(),
		MemoryTotal: t.proc.kibibytes("meminfo", "MemTotal"), MemoryFree: t.proc.kibibytes("meminfo", "MemAvailable"), MemoryOwn: t.proc.kibibytes("self/status", "VmRSS"),
	}
	if t.open != nil {
		o := t.open()
		f.StreamsOut, f.StreamsIn, f.Peers = natural(o.Out), natural(o.In), natural(o.Peers)
	}
	disk, names := t.disk.begin(), t.gpus()
	var said []driven
	if len(names) > 0 { // else there is no driver to ask
		said = t.driver.begin().wait(ctx)
	}
	f.GPUs = seenBy(names, said)
	if st := disk.wait(ctx); st != nil {
		f.DiskTotal, f.DiskFree = bytesOf(st.Blocks, st.Bsize), bytesOf(st.Bavail, st.Bsize)
	}
	return f
}

// natural is a count; nil if it is below 0.
func natural[N ~int | ~int64](n N) *uint64 {
	if n < 0 {
		return nil
	}
	return new(uint64(n))
}

// processorTime is what this process has taken of processors, in seconds.
func processorTime() *float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return nil
	}
	return new(float64((time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Milliseconds()) / 1000)
}

// diskOf looks at the file system of a directory; nil: it does not tell, or has no bound.
func diskOf(dir string) *unix.Statfs_t {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Blocks == 0 {
		return nil
	}
	return &st
}

// bytesOf is a size in blocks; nil if it is beyond what there can be.
func bytesOf(blocks uint64, size int64) *uint64 {
	if size <= 0 || blocks > maxCount/uint64(size) {
		return nil
	}
	return new(blocks * uint64(size))
}
