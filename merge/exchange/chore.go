package exchange

import (
	"fmt"
	"sync/atomic"
	"time"
)

// standstill is how many stall times an owner's own work may take for one leaf. What is timed is reading, merging and writing
// some hundred kilobytes for each contributor, which only a disk that hangs can make so long. Making scratch files is not timed.
const standstill = 3

// chore is what one goroutine of an attempt does with this node's own memory and files, while others may wait for it and it
// for nobody. Times are counted from the attempt's begin.
type chore struct {
	since atomic.Int64 // nanoseconds; 0: nothing is being done
}

// does begins the work on one leaf; what was begun before is done.
func (r *run) does(c *chore) { c.since.Store(int64(max(1, time.Since(r.began)))) }

// rests tells that from here others are waited for.
func (c *chore) rests() { c.since.Store(0) }

// watch ends the attempt when the own work stands still, which receivers can't see: the goroutines that tell them that this
// owner lives know nothing of its disk. The goroutine that hangs stays, and Run with it.
func (r *run) watch() {
	most := standstill * r.hub.cfg.StallTimeout
	chores := []*chore{&r.merging}
	for _, in := range r.inbound {
		if in != nil {
			chores = append(chores, &in.stashing)
		}
	}
	for _, c := range chores {
		if since := c.since.Load(); since != 0 && time.Since(r.began)-time.Duration(since) >= most {
			r.fail(r.Self, fmt.Sprintf("its own merge has stood still for %s: does its disk answer?", most), nil)
			return
		}
	}
}
