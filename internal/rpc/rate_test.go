package rpc_test

import (
	"fmt"
	"testing"
	"time"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
)

// TestANodeCanNotFloodTheLog has one SL open and end sessions as fast as it can: the SN proposes what its rate lets through, and
// others are not held up.
func TestANodeCanNotFloodTheLog(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	began, later := time.Now(), time.Duration(0)
	frozen := func() { s.later.Store(int64(later - time.Since(began))) }
	proposed := 0
	s.core.OnPropose(func(state.Command) { proposed++ })
	var err error
	flood := func() {
		proposed, err = 0, nil
		for i := 0; err == nil && i < 1000; i++ {
			frozen()
			id := fmt.Sprintf("%032x", i+int(later))
			if _, err = a.open(t, id, wireTerms(layout(t, 100), 1)); err == nil {
				frozen()
				_, err = a.sessions().EndSession(t.Context(), with(a, &swarmv1.EndSessionRequest{Session: id, Contract: "study", Run: 1, Reason: "failed"}))
			}
		}
	}
	flood()
	wantReason(t, "a flood", err, "TOO_FAST")
	if proposed < 126 || proposed > 130 {
		t.Errorf("%d proposals at once, want 128", proposed)
	}
	if _, err := b.open(t, idB, wireTerms(layout(t, 100), 1)); err != nil {
		t.Errorf("another node: %v", err)
	}
	later = 10 * time.Second
	flood()
	if proposed < 38 || proposed > 42 {
		t.Errorf("%d proposals in 10 s, want 40", proposed)
	}
}

// TestAKnownKeyRegistersInAFlood: nodes register again whenever their SVIDs are renewed, also while others use up what their shared
// entry has of new registrations.
func TestAKnownKeyRegistersInAFlood(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/sl")
	key := nodeKey(t)
	p.register(t, "sl-known", key)
	s.later.Store(int64(30 * time.Second)) // a flood so late that for as long no slow machine gets anything back
	entry := must(identity.ParseIDString("spiffe://hospital.example/swarm/sl"))(t)
	for n := 0; ; n++ {
		if err := rpc.RatesOf(s.server).TakeRegistration(entry, fmt.Sprint("fake-", n), false); err != nil {
			wantReason(t, "the flood's last", rpc.ToConnect(err), "TOO_FAST")
			break
		}
		if n > 1<<16 {
			t.Fatal("a shared entry has no bound")
		}
	}
	s.later.Store(0)
	try := func(by *peer, name string, key p2pcrypto.PrivKey) error {
		_, err := by.nodes().Register(t.Context(), with(by, by.registration(t, name, identity.RoleSL, key)))
		return err
	}
	wantReason(t, "a new key", try(p, "sl-new", nodeKey(t)), "TOO_FAST")
	wantReason(t, "the known key, for another node", try(p, "sl-other", key), "TOO_FAST")
	for range 3 {
		if err := try(s.as("/swarm/sl"), "sl-known", key); err != nil {
			t.Errorf("the known key, for its node: %v", err)
		}
	}
	if err := try(s.as("/swarm/sl/sl-own"), "sl-own", nodeKey(t)); err != nil {
		t.Errorf("a node with an entry of its own: %v", err)
	}
}
