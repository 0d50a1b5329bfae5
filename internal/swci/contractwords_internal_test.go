package swci

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestAdviceIsNoWarning: what could be better is told from what is wrong now, also by an SN that says of SPIFFE IDs only in words that nodes
// share them.
func TestAdviceIsNoWarning(t *testing.T) {
	s := &Session{Env: Env{Now: func() time.Time { return time.UnixMilli(1_000) }}}
	const (
		shared = "sl-0, sl-1 share the SPIFFE ID spiffe://a.example/swarm/sl: each of them owns a part of the model, whoever runs them; give each node an entry of its own, on the SPIRE server's machine: swarmctl invite sl/NAME"
		weigh  = "sl-0 trains on 100 samples and sl-1 on 10, but all peers weigh the same"
		ends   = "node sl-0: its identity expires in 3m"
		still  = "no tensor of sl-1 has changed since round 2"
	)
	got := statusNotes(s, &swarmv1.GetContractStatusResponse{
		Warnings:         []string{shared, ends, weigh, still},
		TrainingWarnings: []*swarmv1.Warning{{Text: weigh, Advice: true}, {Text: still}},
	})
	var want fields
	want.add("ADVICE", shared)
	want.add("WARNING", ends)
	want.add("ADVICE", weigh)
	want.add("WARNING", still)
	if diff := cmp.Diff([]field(want), []field(got), cmp.AllowUnexported(field{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
