package links_test

import (
	"testing"
	"time"
)

// A link that is dead for a minute costs a minute, not the round: who had leaves keeps them.
func TestLinkDropsForAMinute(t *testing.T) {
	const (
		bytes = 40_000_000
		link  = 100_000_000 // bits per second: an exchange takes over four seconds
	)
	w := newSwarm(t, 1)
	for i := 1; i <= 3; i++ {
		if err := w.Host(10 + i).Limit(link); err != nil {
			t.Fatal(err)
		}
	}
	w.all(3, "MIN_PEERS=3", "BATCHES=2", "SIZE=10000000")
	w.reaches(w.sls[1], 1)
	w.merging(1)
	w.merging(2)
	var before [4]uint64
	for i := 1; i <= 3; i++ {
		before[i] = w.sent(10 + i)
	}
	begun := w.sent(11)
	w.Until("a quarter of the exchange", func() bool { return w.sent(11)-begun > bytes/3 })
	w.cut(11, 12)
	<-time.After(time.Minute) // what the test is about
	w.heal(11, 12)
	w.reaches(w.sls[1], 2)
	w.reaches(w.sls[2], 2)
	w.reaches(w.sls[3], 2)
	// 2·M·(N−1)/N and headers; at the ends of the link, what was on its way there when it died.
	const most, lost = 2*bytes*2/3*105/100 + 1<<20, 4 << 20
	for i := 1; i <= 3; i++ {
		got := w.sent(10+i) - before[i]
		t.Logf("sl-%d sent %d bytes", i, got)
		limit := uint64(most)
		if i < 3 {
			limit += lost
		}
		if got > limit {
			t.Errorf("sl-%d sent %d bytes for the round, want at most %d: it sent again what had arrived", i, got, limit)
		}
	}
	w.ends()
}

func (w *swarm) sent(i int) uint64 {
	w.T.Helper()
	n, err := w.Host(i).Sent()
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// cut drops all packets between the nodes with the addresses i and j.
func (w *swarm) cut(i, j int) {
	w.T.Helper()
	if err := w.Host(i).Cut(w.Host(j)); err != nil {
		w.T.Fatal(err)
	}
}

func (w *swarm) heal(i, j int) {
	w.T.Helper()
	if err := w.Host(i).Heal(w.Host(j)); err != nil {
		w.T.Fatal(err)
	}
}

// Two of three that do not reach each other, both alive: the largest set that is connected goes on.
func TestLinkBetweenLivePeersCut(t *testing.T) {
	w := newSwarm(t, 1)
	w.all(3, "MIN_PEERS=2", "BATCHES=24", "BATCH_SECONDS=0.1", "--stall-grace=5s")
	w.reaches(w.sls[3], 3)
	w.cut(11, 12)
	from, cut := last(w.sls[3]), time.Now()
	w.reaches(w.sls[3], from+2) // The one after may be of an exchange that was over when the link died.
	t.Logf("went on %s after the cut", time.Since(cut).Round(time.Millisecond))
	w.reaches(w.sls[3], from+4)
	w.heal(11, 12)
	w.ends()
}

// The side with the majority of SNs goes on with the peers that it reaches, the other waits and says so.
func TestNetworkSplitsAndHeals(t *testing.T) {
	w := newSwarm(t, 3)
	w.all(3, "MIN_PEERS=2", "BATCHES=60", "BATCH_SECONDS=0.2")
	for i := 1; i <= 3; i++ {
		w.reaches(w.sls[i], 3)
	}
	for _, a := range []int{1, 11} {
		for _, b := range []int{2, 3, 12, 13} {
			w.cut(a, b)
		}
	}
	from := last(w.sls[2])
	w.reaches(w.sls[2], from+4)
	w.reaches(w.sls[3], from+4)
	if got := last(w.sls[1]); got > from+1 {
		t.Errorf("sl-1 was given round %d on the side without a majority", got)
	}
	for _, a := range []int{1, 11} {
		for _, b := range []int{2, 3, 12, 13} {
			w.heal(a, b)
		}
	}
	healed := last(w.sls[2])
	w.reaches(w.sls[1], healed)
	w.ends()
	back := false
	for _, m := range models(w.sls[1]) {
		back = back || m.contributed && m.round > healed
	}
	if !back {
		t.Error("sl-1 contributed to no round after the network had healed")
	}
}
