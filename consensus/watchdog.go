package consensus

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// watchdogTicks is how many parts the patience is counted in, so that a process that was stopped for long, and its disk with
// it, has waited for one part and not for all.
const watchdogTicks = 4

// watchdog reports a write to this server's disk that does not return. A leader in that state commits nothing, and goes on
// telling the others that it leads; they would wait for ever.
type watchdog struct {
	patience time.Duration
	gives    atomic.Pointer[func(waited time.Duration) bool] // tells whether to give up; nil: not yet
	once     sync.Once
	hung     chan struct{} // closed once cause is set
	cause    error
}

func newWatchdog(patience time.Duration) *watchdog {
	return &watchdog{patience: patience, hung: make(chan struct{})}
}

// during is called before a write and what it returns after it.
func (w *watchdog) during(what string) (done func()) {
	var mu sync.Mutex
	ticks, over := 0, false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(w.patience/watchdogTicks, func() {
		mu.Lock()
		defer mu.Unlock()
		if ticks++; over {
			return
		}
		waited := time.Duration(ticks) * w.patience / watchdogTicks
		if gives := w.gives.Load(); ticks < watchdogTicks || gives == nil || !(*gives)(waited) {
			timer.Reset(w.patience / watchdogTicks)
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
