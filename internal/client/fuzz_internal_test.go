package client

import (
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// FuzzNewer compares views of SNs that say anything: of two at most one is newer, and none that takes a run or a committed round
// back.
func FuzzNewer(f *testing.F) {
	add := func(a, b *swarmv1.ContractView) {
		x, err := proto.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		y, err := proto.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(x, y)
	}
	add(&swarmv1.ContractView{Run: 1, Index: 5, Plan: &swarmv1.Plan{Attempt: 2}}, &swarmv1.ContractView{Run: 1, Index: 6, Plan: &swarmv1.Plan{Attempt: 1}})
	add(&swarmv1.ContractView{Run: 1, Index: 1<<64 - 1}, &swarmv1.ContractView{Run: 1, Index: 6, Committed: &swarmv1.CommittedRound{Round: 1}})
	add(&swarmv1.ContractView{Run: 2}, &swarmv1.ContractView{Run: 1, Index: 1, Committed: &swarmv1.CommittedRound{Round: 1<<64 - 1}})
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, b := &swarmv1.ContractView{}, &swarmv1.ContractView{}
		if proto.Unmarshal(x, a) != nil || proto.Unmarshal(y, b) != nil {
			return
		}
		if newer(a, b) > 0 && newer(b, a) > 0 {
			t.Errorf("%v and %v are newer than each other", a, b)
		}
		if newer(a, a) != 0 || newer(a, nil) != 1 {
			t.Errorf("%v is newer or older than itself, or no newer than none", a)
		}
		if newer(a, b) > 0 && (a.GetRun() < b.GetRun() || a.GetRun() == b.GetRun() && a.GetCommitted().GetRound() < b.GetCommitted().GetRound()) {
			t.Errorf("%v takes back what %v has", a, b)
		}
	})
}
