package consensus_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
)

// disk is a server's log and ledger, whose writes can hang.
type disk struct {
	raft.LogStore
	consensus.LedgerStore

	mu      sync.Mutex
	answers chan struct{} // nil: at once
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
		<-answers
	}
}

func (d *disk) StoreLogs(logs []*raft.Log) error {
	d.wait()
	return d.LogStore.StoreLogs(logs)
}

// ledgerDisk is the ledger on the same disk.
type ledgerDisk struct{ *disk }

func (d ledgerDisk) WriteAt(p []byte, off int64) (int, error) {
	d.wait()
	return d.LedgerStore.WriteAt(p, off)
}

// TestADiskThatHangsDeposes: a leader that can't write its log or its ledger would go on telling that it leads, and all others
// would wait for it. It stops instead, as a follower does, and the others go on.
func TestADiskThatHangsDeposes(t *testing.T) {
	for _, who := range []string{"leader's log", "leader's ledger", "follower's log"} {
		t.Run(who, func(t *testing.T) {
			inBubble := synctest.Test
			if strings.HasSuffix(who, "ledger") { // Others wait for a mutex then, in which no virtual time passes.
				inBubble = func(t *testing.T, f func(*testing.T)) { f(t) }
			}
			inBubble(t, func(t *testing.T) {
				s := newSwarm(t)
				disks := map[string]*disk{}
				for _, name := range three {
					s.config(name)
					d := &disk{LogStore: s.stores[name].Log, LedgerStore: s.stores[name].Ledger}
					disks[name] = d
					if s.stores[name].Log = d; strings.HasSuffix(who, "ledger") {
						s.stores[name].Log, s.stores[name].Ledger = d.LogStore, ledgerDisk{d}
						s.timing.Disk = 2 * time.Second
					}
				}
				s.form(three...)
				victim := s.leader(three...)
				if strings.HasPrefix(who, "follower") {
					victim = s.servers[others(three, victim.name)[0]]
				}
				answers := make(chan struct{})
				disks[victim.name].hang(answers)
				rest := others(three, victim.name)
				begun := time.Now()
				s.record(rest[0], firstBundle())
				err := <-victim.done
				if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "its disk does not answer") || took > 30*time.Second {
					t.Errorf("%s came to its end after %s: %v", victim.name, took, err)
				}
				if s.leader(rest...).name == victim.name {
					t.Error("it leads still")
				}
				s.propose(rest[1], "sl-2")
				close(answers)
				victim.done <- nil // for the end of the test
			})
		})
	}
}
