package exchange

import (
	"fmt"
	"sync/atomic"
	"time"
)

// standstill is how many stall times an owner's own work may take for one leaf. What is timed is reading, merging and writing
// some hundred kilobytes for each contributor, which only a disk that hangs can make so long. Making scratch files is not timed.
const standstill = 3

// watchdog finds when this node's own work stands still, which receivers can't see: the goroutines that tell them that this
// owner lives know nothing of its disk.
type watchdog struct {
	began time.Time
	most  time.Duration // that the work on one leaf may take
	tasks []*task
}

// task is what one goroutine of an attempt does with this node's own memory and files, while others may wait for it and it
// for nobody.
type task struct {
	began time.Time    // when the attempt began, from which times are counted
	since atomic.Int64 // nanoseconds; 0: nothing is being done
}

func newWatchdog(stall time.Duration) *watchdog {
	return &watchdog{began: time.Now(), most: standstill * stall}
}

// task adds one. It must not be called once the watchdog is asked.
func (w *watchdog) task() *task {
	t := &task{began: w.began}
	w.tasks = append(w.tasks, t)
	return t
}

// check returns an error if some work stands still. The goroutine that hangs stays, and Run with it.
func (w *watchdog) check() error {
	for _, t := range w.tasks {
		if since := t.since.Load(); since != 0 && time.Since(w.began)-time.Duration(since) >= w.most {
			return fmt.Errorf("its own merge has stood still for %s: does its disk answer?", w.most)
		}
	}
	return nil
}

// busy begins the work on one leaf; what was begun before is done.
func (t *task) busy() { t.since.Store(int64(max(1, time.Since(t.began)))) }

// idle tells that from here others are waited for.
func (t *task) idle() { t.since.Store(0) }
