package session_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/trust"
)

// TestAHolderThatIsNotJudgedYetMayHoldTheModel: while no SN shows what the only holder has signed the final model is not lost.
func TestAHolderThatIsNotJudgedYetMayHoldTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := rpctest.NewAuthority("a.example")
		if err != nil {
			t.Fatal(err)
		}
		domains, err := authority.Domains()
		if err != nil {
			t.Fatal(err)
		}
		other, err := authority.Issue("/swarm/sl/other", 12*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		svid, err := other.GetX509SVID()
		if err != nil {
			t.Fatal(err)
		}
		const peer, swarmID = "12D3KooW", "5eed"
		signed, err := identity.SignWithSVID(svid, identity.OwnershipMessage(swarmID, "other", peer))
		if err != nil {
			t.Fatal(err)
		}
		var answers atomic.Bool
		w, final := newSwarm(), []byte("ABCDEFGH")
		w.models[digestOf(final)] = final
		w.trust = trust.New(trust.Config{
			Source: other, Domains: domains, SwarmID: func() string { return swarmID }, Log: slog.New(slog.DiscardHandler),
			Ask: func(context.Context, []string) ([]*trust.Proof, error) {
				if !answers.Load() {
					return nil, errors.New("no leader")
				}
				return []*trust.Proof{{Name: "other", Chain: identity.RawChain(svid), Signature: signed}}, nil
			},
		})
		e, id, _ := start(t, w)
		w.update(func(v *round.View) {
			commit(v, 5, 0, digestOf(final))
			v.Over = true
			m := v.Sessions[1]
			m.SPIFFEID, m.PeerID, m.Proof = "spiffe://a.example/swarm/sl/other", peer, "d"
		})
		got := syncCall(t, e, id, 1)
		select {
		case a := <-got:
			t.Fatalf("gave up: %+v, %v", a.r, a.err)
		case <-time.After(10 * time.Minute):
		}
		answers.Store(true)
		if a := <-got; a.err != nil || a.r.Round != 5 {
			t.Errorf("got %+v, %v; want the model", a.r, a.err)
		}
	})
}
