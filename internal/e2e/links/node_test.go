package links_test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
)

// A peer that stands still for longer than a heartbeat's timeout is left out, and back in when it wakes.
func TestPeerStallsAndWakes(t *testing.T) {
	w := newSwarm(t, 1)
	for i := 1; i <= 3; i++ {
		if err := w.Host(10 + i).Limit(200_000_000); err != nil {
			t.Fatal(err)
		}
	}
	w.all(3, "MIN_PEERS=2", "BATCHES=24", "SIZE=2000000", "BATCH_SECONDS=0.1")
	w.reaches(w.sls[3], 2)
	w.merging(3)
	w.sls[3].Signal(syscall.SIGSTOP)
	from := last(w.sls[1])
	w.reaches(w.sls[1], from+3)
	w.reaches(w.sls[2], from+3)
	w.sls[3].Signal(syscall.SIGCONT)
	woken := last(w.sls[1])
	w.Until("a contribution of sl-3 after it woke", func() bool {
		m := models(w.sls[3])
		return len(m) > 0 && m[len(m)-1].round > woken && m[len(m)-1].contributed
	})
	w.ends()
}

// One that restarts, and one that comes late, are given the committed model first, and contribute from the next round on.
func TestPeerRestartsAndAnotherComesLate(t *testing.T) {
	w := newSwarm(t, 1)
	w.all(3, "MIN_PEERS=2", "BATCHES=60", "BATCH_SECONDS=0.1")
	w.reaches(w.sls[3], 3)
	w.sls[3].Kill()
	w.train(3, "MIN_PEERS=2", "BATCHES=20", "BATCH_SECONDS=0.1")
	w.train(4, "MIN_PEERS=2", "BATCHES=20", "BATCH_SECONDS=0.1")
	for _, i := range []int{3, 4} {
		p := w.sls[i]
		w.Until(fmt.Sprintf("a contribution of sl-%d", i), func() bool {
			return slices.ContainsFunc(models(p), func(m handed) bool { return m.contributed })
		})
		if m := models(p); m[0].contributed || m[0].round < 3 {
			t.Errorf("sl-%d was given %+v, want the committed model before it contributes", i, m)
		}
	}
	w.ends()
}

// Below minPeers nothing is merged; when the missing one is back training goes on.
func TestBelowMinPeersAndBack(t *testing.T) {
	w := newSwarm(t, 1)
	w.all(2, "MIN_PEERS=2", "BATCHES=30", "BATCH_SECONDS=0.1")
	w.reaches(w.sls[1], 2)
	w.sls[2].Kill()
	w.sns[1].Sees("waiting for 1 more peer: have sl-1; need 2 (minPeers)")
	stood := last(w.sls[1])
	w.train(2, "MIN_PEERS=2", "BATCHES=30", "BATCH_SECONDS=0.1")
	w.reaches(w.sls[1], stood+2)
	w.ends()
}

// The leader is killed again and again in the middle of fast rounds, which is in the middle of every kind of commit.
func TestLeaderKilledWhileItPlans(t *testing.T) {
	w := newSwarm(t, 3)
	w.all(3, "MIN_PEERS=2", "BATCHES=400", "BATCH_SECONDS=0.02")
	w.reaches(w.sls[1], 3)
	for range 3 {
		w.Until("a leader", func() bool { return w.leader() > 0 })
		i := w.leader()
		from := last(w.sls[1])
		w.sns[i].Kill()
		w.reaches(w.sls[1], from+3)
		w.sns[i] = w.SN(i)
		w.sns[i].Sees(apiMarker)
	}
	w.ends()
}

// The Sentinel is lost with its disk; a new SN joins through another one and carries an SL.
func TestSentinelGoneForGoodAndANewSNJoins(t *testing.T) {
	w := newSwarm(t, 3)
	w.all(3, "MIN_PEERS=2", "BATCHES=80", "BATCH_SECONDS=0.1")
	w.reaches(w.sls[1], 3)
	w.sns[1].Kill()
	if err := os.RemoveAll(w.Path("sn1")); err != nil {
		t.Fatal(err)
	}
	joined := w.SN(4, "--join", w.Addr(2))
	joined.Sees(apiMarker)
	w.train(4, "MIN_PEERS=2", "BATCHES=10", "BATCH_SECONDS=0.1", "--sn-ip="+w.Addr(4))
	w.reaches(w.sls[4], 4)
	w.ends()
}

// All SNs die at once, as at a power cut, while an exchange runs.
func TestAllSNsDieInTheMiddle(t *testing.T) {
	w := newSwarm(t, 3)
	w.all(3, "MIN_PEERS=2", "BATCHES=30", "BATCH_SECONDS=0.1", "SIZE=2000000")
	w.reaches(w.sls[1], 2)
	w.merging(2)
	for _, p := range w.sns {
		p.Kill()
	}
	for i := range w.sns {
		w.sns[i] = w.SN(i)
	}
	for _, p := range w.sns {
		p.Sees(apiMarker)
	}
	w.ends()
}
