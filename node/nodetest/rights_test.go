package nodetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestRights: what operators may do is the same with each leader, and nodes train whatever operators may do.
func TestRights(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3, Late: three}, func(t *testing.T, s *nodetest.Swarm) {
		op := s.Operator()
		own, err := op.ListNodes(t.Context())
		if err != nil || len(own.GetNodes()) != 3 {
			t.Fatalf("before: %v, %v", own, err)
		}
		domain, _, _ := strings.Cut(strings.TrimPrefix(own.GetNodes()[0].GetSpiffeId(), "spiffe://"), "/")
		sentence := "Allow spiffe://" + domain + "/swarm/swci/** to manage "
		if _, err := op.SetRights(t.Context(), []string{sentence + "rights"}); err != nil {
			t.Fatal(err)
		}
		refused := func(when string) {
			t.Helper()
			if _, err := op.ListNodes(t.Context()); err == nil || !strings.Contains(err.Error(), "may not inspect nodes: sentence 1 ") {
				t.Errorf("%s: %v", when, err)
			}
			if _, err := op.CreateContract(t.Context(), "other", nil); err == nil || !strings.Contains(err.Error(), "may not manage contracts other: sentence 1 ") {
				t.Errorf("%s: %v", when, err)
			}
		}
		refused("without a right")
		time.Sleep(time.Minute) // virtual: all SNs vote
		led := s.Leader()
		s.Crash(led)
		if s.Leader() == led {
			t.Fatal("no other leader")
		}
		refused("with another leader")
		s.Restart(led)
		for _, name := range three {
			s.Restart(name)
		}
		plain(t, s)
		if r, err := op.SetRights(t.Context(), []string{sentence + "all-resources"}); err != nil || len(r.GetSentences()) != 1 {
			t.Errorf("set again: %v, %v", r, err)
		}
		if _, err := op.ListNodes(t.Context()); err != nil {
			t.Errorf("with a right: %v", err)
		}
	})
}
