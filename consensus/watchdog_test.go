package consensus_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
)

// disk is a server's log and ledger, whose writes can hang.
type disk struct {
	raft.LogStore
	ledgerfile.Store

	mu      sync.Mutex
	answers chan struct{} // nil: at once
	waits   atomic.Int32  // writes that have waited
}

func (d *disk) hang(answers chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = answers
}

func (d *disk) wait() {
	d.mu.Lock()
	answers := d.answers
	d.mu.Unlock()
	if answers != nil {
		d.waits.Add(1)
		<-answers
	}
}

func (d *disk) StoreLogs(logs []*raft.Log) error {
	d.wait()
	return d.LogStore.StoreLogs(logs)
}

// stableDisk is the term and the vote on the same disk.
type stableDisk struct {
	raft.StableStore
	d *disk
}

func (s stableDisk) Set(key, value []byte) error {
	s.d.wait()
	return s.StableStore.Set(key, value)
}

func (s stableDisk) SetUint64(key []byte, value uint64) error {
	s.d.wait()
	return s.StableStore.SetUint64(key, value)
}

// ledgerDisk is the ledger on the same disk.
type ledgerDisk struct{ *disk }

func (d ledgerDisk) WriteAt(p []byte, off int64) (int, error) {
	d.wait()
	return d.Store.WriteAt(p, off)
}

// onDisks has the three servers use disks that can hang, under their logs or their ledgers.
func (s *swarm) onDisks(ledgers bool) map[string]*disk {
	disks := map[string]*disk{}
	for _, name := range three {
		s.config(name)
		d := &disk{LogStore: s.stores[name].Log, Store: s.stores[name].Ledger}
		if disks[name] = d; ledgers {
			s.stores[name].Ledger = ledgerDisk{d}
		} else {
			s.stores[name].Log, s.stores[name].Stable = d, stableDisk{s.stores[name].Stable, d}
		}
	}
	return disks
}

// gaveUp waits for the end of a server, which must be for its disk, and lets the swarm's end find it stopped.
func (s *swarm) gaveUp(v *server) {
	s.t.Helper()
	if err := <-v.done; err == nil || !strings.Contains(err.Error(), "its disk does not answer") {
		s.t.Errorf("%s came to its end: %v", v.name, err)
	}
	v.done <- nil
}

// TestADiskThatHangsDeposes: a leader that can't write its log would go on telling that it leads, and all others would wait for it.
// It stops instead, as a follower does later, and the others go on. The program's own log may lie on the same disk.
func TestADiskThatHangsDeposes(t *testing.T) {
	for who, most := range map[string]time.Duration{"leader": 30 * time.Second, "follower": 150 * time.Second} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				disks := s.onDisks(false)
				s.logs = func(name string) slog.Handler { return hungLog{slog.DiscardHandler, disks[name]} }
				s.form(three...)
				victim := s.leader(three...)
				if who == "follower" {
					victim = s.servers[others(three, victim.name)[0]]
				}
				answers := make(chan struct{})
				disks[victim.name].hang(answers)
				rest := others(three, victim.name)
				begun := time.Now()
				s.propose(rest[0], "sl-1")
				s.until("it to be left", func() bool {
					l, _, ok := s.servers[rest[0]].Leader()
					return ok && l != victim.name
				})
				time.Sleep(most - time.Since(begun))
				close(answers)
				s.gaveUp(victim)
				s.propose(rest[1], "sl-2")
			})
		})
	}
}

// The same for its ledger, also when it was asked to end before it was given up. Others wait for a mutex then, in which no virtual
// time passes.
func TestALedgerThatHangsDeposes(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprintf("asked to end %t", asked), func(t *testing.T) {
			t.Parallel()
			s := newSwarm(t)
			s.timing.Disk = 4 * time.Second
			disks := s.onDisks(true)
			s.form(three...)
			victim := s.leader(three...)
			answers := make(chan struct{})
			disks[victim.name].hang(answers)
			rest := others(three, victim.name)
			var writing sync.WaitGroup
			writing.Go(func() { s.record(rest[0], firstBundle()) })
			if asked {
				s.until("a write that hangs", func() bool { return disks[victim.name].waits.Load() > 0 })
				victim.cancel()
			}
			s.gaveUp(victim)
			writing.Wait()
			if s.leader(rest...).name == victim.name {
				t.Error("it leads still")
			}
			close(answers)
		})
	}
}

// TestDisksThatAnswerAgain: a server alone waits, and where all hang at once only the leader stops.
func TestDisksThatAnswerAgain(t *testing.T) {
	for _, names := range [][]string{three[:1], three} {
		t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				disks := s.onDisks(false)
				s.form(names...)
				victim := s.leader(names...)
				answers := make(chan struct{})
				for _, d := range disks {
					d.hang(answers)
				}
				time.AfterFunc(time.Minute, func() {
					for _, d := range disks {
						d.hang(nil)
					}
					close(answers)
				})
				on := victim.name
				if len(names) > 1 {
					on = others(names, victim.name)[0]
				}
				if _, err := s.servers[on].Propose(s.within(2*time.Minute), registerSL("sl-1")); err != nil {
					t.Error(err)
				}
				if len(names) > 1 {
					s.gaveUp(victim)
				}
			})
		})
	}
}

// hungLog is a log on the disk.
type hungLog struct {
	slog.Handler
	d *disk
}

func (h hungLog) Enabled(context.Context, slog.Level) bool  { return true }
func (h hungLog) Handle(context.Context, slog.Record) error { h.d.wait(); return nil }
func (h hungLog) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hungLog) WithGroup(string) slog.Handler             { return h }
