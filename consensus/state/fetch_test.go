package state_test

import (
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestAFetchIsRecordedOnce for each operator, holder and round, and only where the rules let models out.
func TestAFetchIsRecordedOnce(t *testing.T) {
	history := trained()[:11] // up to the committed round
	fetch := state.RecordFetch{
		Contract: "study", Run: 1, Round: 1, Digest: hexOf("d", 64), By: "spiffe://a.example/swarm/swci", Node: "sl-0", SeenMS: 9, Signature: []byte{1}, AtMS: 10,
	}
	closed, _, _ := chained(t, history...)
	if next, _, err := closed.Apply(fetch); state.ReasonOf(err) != state.ReasonTermsMismatch || next != closed {
		t.Errorf("without export: %v", err)
	}
	rules := state.CreateContract{Contract: "study", Rules: state.Rules{Export: true}, AtMS: 3}
	s, _, _ := chained(t, append(append([]state.Command{}, history[:2]...), append([]state.Command{rules}, history[2:]...)...)...)
	next, res, err := s.Apply(fetch)
	if err != nil || len(res.Records) != 1 {
		t.Fatalf("%d records: %v", len(res.Records), err)
	}
	if _, body, err := ledger.Parse(res.Records[0]); err != nil || body.(ledger.Fetch).PeerID != "key-sl-0" || body.(ledger.Fetch).Model != fetch.Digest {
		t.Errorf("recorded %s: %v", res.Records[0], err)
	}
	fetch.AtMS++
	if again, res, err := next.Apply(fetch); err != nil || res.Changed || again != next {
		t.Errorf("again: %+v, %v", res, err)
	}
	for name, change := range map[string]func(f *state.RecordFetch){
		"a round that is not there": func(f *state.RecordFetch) { f.Round = 2 },
		"another run":               func(f *state.RecordFetch) { f.Run = 2 },
		"nobody's":                  func(f *state.RecordFetch) { f.Node = "sl-9" },
		"no digest":                 func(f *state.RecordFetch) { f.Digest = "d" },
		"by nobody":                 func(f *state.RecordFetch) { f.By = "" },
	} {
		bad := fetch
		change(&bad)
		if got, _, err := next.Apply(bad); state.ReasonOf(err) == "" || got != next {
			t.Errorf("%s: %v", name, err)
		}
	}
}
