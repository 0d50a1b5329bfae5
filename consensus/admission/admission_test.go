package admission_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/admission"
)

func TestCandidatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(time.Now)
		for i := range 10_000 {
			c.Note(admission.Candidate{Name: "sn-x", PeerID: fmt.Sprint("key-", i), SPIFFEID: "spiffe://a/swarm/sn"})
		}
		if n := len(c.List()); n != admission.MaxOfID {
			t.Errorf("%d candidates of one SPIFFE ID", n)
		}
		if !c.Note(admission.Candidate{Name: "sn-1", PeerID: "honest", SPIFFEID: "spiffe://a/swarm/sn/sn-1"}) {
			t.Error("one with a SPIFFE ID of its own has no place")
		}
		for i := range 10_000 {
			c.Note(admission.Candidate{Name: "sn-x", PeerID: fmt.Sprint("k-", i), SPIFFEID: fmt.Sprint("spiffe://a/swarm/sn/", i)})
		}
		if n := len(c.List()); n != admission.MaxCandidates {
			t.Errorf("%d candidates", n)
		}
		time.Sleep(admission.Keep)
		if c.Note(admission.Candidate{Name: "sn-1", PeerID: "honest"}) {
			t.Error("one that asks on is new")
		}
		time.Sleep(time.Second)
		want := []admission.Candidate{{Name: "sn-1", PeerID: "honest", SinceMS: time.Now().Add(-admission.Keep - time.Second).UnixMilli()}}
		if d := cmp.Diff(want, c.List()); d != "" {
			t.Error("those that ask no more are kept: " + d)
		}
		if c.Forget("honest"); len(c.List()) > 0 {
			t.Error("one that has joined waits")
		}
	})
}

func TestChecksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(time.Now)
		made := 0
		for range 100 { // for ten seconds, a thousand in each
			for range 100 {
				if c.MayCheck() {
					made++
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if made < 200 || made > 300 {
			t.Errorf("%d checks", made)
		}
		time.Sleep(time.Minute)
		for range 64 {
			if !c.MayCheck() {
				t.Fatal("too few checks after a pause")
			}
		}
		if c.MayCheck() {
			t.Error("more checks than there are")
		}
	})
}
