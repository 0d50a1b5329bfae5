// Package watchdog notices writes to a disk that do not return.
package watchdog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// parts is how many parts the time limit is counted in, so that a process that was stopped for long, and its disk with
// it, has waited for one part and not for all.
const parts = 4

// Watchdog reports a write to this server's disk that does not return. A leader in that state commits nothing, and goes on
// telling the others that it leads; they would wait for ever. It is safe for concurrent use.
type Watchdog struct {
	timeout time.Duration
	giveUp  atomic.Pointer[func(waited time.Duration) bool] // reports whether to give up; nil: not yet
	once    sync.Once
	hung    chan struct{} // closed once cause is set
	cause   error
}

// New returns a watchdog that is asked whether to give up after a write has taken so long, and again after each quarter of that.
func New(timeout time.Duration) *Watchdog {
	return &Watchdog{timeout: timeout, hung: make(chan struct{})}
}

// GiveUpWhen sets what reports whether to give up a write that has taken so long; until then none is.
func (w *Watchdog) GiveUpWhen(gives func(waited time.Duration) bool) { w.giveUp.Store(&gives) }

// Hung is closed when a write was given up.
func (w *Watchdog) Hung() <-chan struct{} { return w.hung }

// Cause says which write was given up, once Hung is closed.
func (w *Watchdog) Cause() error { return w.cause }

// During is called before a write and what it returns after it.
func (w *Watchdog) During(what string) (done func()) {
	var mu sync.Mutex
	ticks, over := 0, false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(w.timeout/parts, func() {
		mu.Lock()
		defer mu.Unlock()
		if ticks++; over {
			return
		}
		waited := time.Duration(ticks) * w.timeout / parts
		if gives := w.giveUp.Load(); ticks < parts || gives == nil || !(*gives)(waited) {
			timer.Reset(w.timeout / parts)
			return
		}
		w.once.Do(func() {
			w.cause = fmt.Errorf("%s has taken %s and more: its disk does not answer; see what the kernel says of it, and start again when it does", what, waited)
			close(w.hung)
		})
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}
