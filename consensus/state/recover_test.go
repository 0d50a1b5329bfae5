package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestRecoverSwarm: the survivor alone is left of the SNs, SLs stay, and of many recoveries the newest are kept.
func TestRecoverSwarm(t *testing.T) {
	s := state.New()
	apply := func(c state.Command) error {
		next, _, err := s.Apply(c)
		if err == nil {
			err = state.CheckChange(s, next)
		}
		if err == nil {
			s = next
		}
		return err
	}
	must := func(c state.Command) {
		t.Helper()
		if err := apply(c); err != nil {
			t.Fatal(err)
		}
	}
	must(state.InitSwarm{SwarmID: "swarm1", AtMS: 1, Founder: &state.Admission{Name: "sn-0", PeerID: "id0", AtMS: 1}})
	must(state.AdmitNode{Node: "sn-1", PeerID: "id1", By: "spiffe://a.example/swarm/swci", AtMS: 1})
	for i, role := range []string{naming.RoleSN, naming.RoleSN, naming.RoleSL} {
		must(state.RegisterNode{Node: state.Node{Name: fmt.Sprintf("%s-%d", role, i), Role: role, PeerID: fmt.Sprint("id", i)}, TokenHash: strings.Repeat("0", 64), AtMS: 1})
	}
	must(inviting("sn-d", 1, 9))
	r := ledger.Recovery{SwarmID: "swarm1", Epoch: 2, Node: "sn-1", PeerID: "id1", By: "spiffe://a.example/swarm/swci", AskedMS: 5, Signature: []byte{1}}
	for name, change := range map[string]func(*ledger.Recovery){
		"another swarm":     func(r *ledger.Recovery) { r.SwarmID = "swarm2" },
		"the same epoch":    func(r *ledger.Recovery) { r.Epoch = 1 },
		"a later epoch":     func(r *ledger.Recovery) { r.Epoch = 3 },
		"a recovery before": func(r *ledger.Recovery) { r.Previous = strings.Repeat("ab", 32) },
		"another ledger":    func(r *ledger.Recovery) { r.Had = ledger.Witness{Length: 3, Hash: strings.Repeat("ab", 32)} },
		"no signature":      func(r *ledger.Recovery) { r.Signature = nil },
		"no node":           func(r *ledger.Recovery) { r.Node = "" },
		"a long chain":      func(r *ledger.Recovery) { r.Chain = make([][]byte, state.MaxChain+1) },
	} {
		bad := r
		change(&bad)
		if err := apply(state.RecoverSwarm{Recovery: bad}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for range state.MaxRecoveries + 2 {
		must(state.RecoverSwarm{Recovery: r})
		r.Previous = r.Digest()
		r.Epoch++
	}
	if s.Epoch() != state.MaxRecoveries+3 || len(s.Recoveries) != state.MaxRecoveries || len(s.Nodes) != 2 || s.Nodes["sn-1"] == nil || s.Nodes["sl-2"] == nil {
		t.Errorf("epoch %d, %d recoveries, nodes %v", s.Epoch(), len(s.Recoveries), s.Nodes)
	}
	if a := s.Admissions(); len(a) != 1 || a[0].PeerID != "id1" {
		t.Errorf("admitted %+v", a)
	}
	if len(kept(s)) > 0 || s.Invitations.Made != 1 {
		t.Errorf("%d invitations are left of %d", len(kept(s)), s.Invitations.Made)
	}
	raw, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := state.DecodeSnapshot(raw); err != nil || back.Epoch() != s.Epoch() || back.Size() != len(raw) {
		t.Errorf("read back: %v", err)
	}
	if raw, err := state.EncodeCommand(state.RecoverSwarm{Recovery: r}); err == nil {
		if _, err := state.DecodeCommand(raw); err == nil {
			t.Error("a recovery can be in a log")
		}
	}
}
