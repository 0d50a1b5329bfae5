package rpc_test

import (
	"errors"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
)

// TestRegistrationProvesItselfLater holds that what the ledger gets of a registration is the SVID's word for the node key.
func TestRegistrationProvesItselfLater(t *testing.T) {
	s := newSwarm(t)
	_, _ = newLearner(t, s, "sl-before")
	if s.core.View().Nodes["sl-before"].Recorded != 0 {
		t.Error("recorded before the ledger began")
	}
	must(s.core.Propose(t.Context(), state.BundleOf("hospital.example", [][]byte{{1}}, 1)))(t)
	_, key := newLearner(t, s, "sl-a")
	n := s.core.View().Nodes["sl-a"]
	if id := must(identity.PeerID(key))(t); n.Recorded != 3 || n.PeerID != id.String() {
		t.Errorf("the registration is record %d of %+v", n.Recorded, s.core.View().LedgerHead())
	}
}

// TestLedgerReasons: a reader of an incomplete ledger is sent to another SN, one with a wrong offset is not.
func TestLedgerReasons(t *testing.T) {
	if got := rpc.ReasonOf(errors.Join(errors.New("3 of 5"), consensus.ErrLedgerBehind)); got != "LEDGER_INCOMPLETE" {
		t.Errorf("an incomplete ledger is %s", got)
	}
	s := newSwarm(t) // keeps no ledger
	a, _ := newLearner(t, s, "sl-a")
	stream, err := swarmv1connect.NewLedgerServiceClient(a.http, a.url()).ReadLedger(t.Context(), with(a, &swarmv1.ReadLedgerRequest{}))
	if err == nil {
		for stream.Receive() {
			t.Error("a ledger that is not there was read")
		}
		err = stream.Err()
	}
	if err == nil {
		t.Error("a ledger that is not there reads as empty")
	}
}
