package client_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/internal/client"
)

// lose takes the quorum of three SNs away.
func (s *swarm) lose() {
	s.core.SetQuorum(&quorum.Error{Count: quorum.Count{Answer: []quorum.Voter{{Name: "sn-0"}}, Missing: []quorum.Voter{{Name: "sn-1"}, {Name: "sn-2"}}}})
}

func (s *swarm) config(path string, sns ...string) client.Config {
	return client.Config{
		SNs: sns, Source: s.source(path), Domains: must(s.authority.Domains())(s.t), Log: slog.New(slog.DiscardHandler),
	}
}

// TestGivesUpWithoutQuorum: one SN says so, the other can't be reached. Who does not wait hears what the first one said, after both were
// asked.
func TestGivesUpWithoutQuorum(t *testing.T) {
	for name, order := range map[string][]int{"the survivor first": {0, 1}, "the dead first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			s := newSwarm(t, swarmID)
			sns := []string{s.start("sn-0").addr, freePort(t)}
			s.lose()
			cfg := s.config("/swarm/swci", sns[order[0]], sns[order[1]])
			cfg.GiveUp = true
			c := must(client.New(cfg))(t)
			t.Cleanup(func() { _ = c.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := (client.Operator{Client: c}).ForgetNode(ctx, "sl-0")
			if client.Reason(err) != client.ReasonNoQuorum || err.Error() != "no quorum: 1 of 3 SNs answer" || client.Remedy(err) == "" {
				t.Errorf("got %v, reason %q", err, client.Reason(err))
			}
			if list, err := c.ListNodes(ctx); err != nil || list.GetNoQuorum().GetMessage() != "no quorum: 1 of 3 SNs answer" {
				t.Errorf("list of nodes: %v %v", list, err)
			}
		})
	}
}

// TestWaitsForAQuorum: a node is told once that there is none, waits, and is told once that there is one again.
func TestWaitsForAQuorum(t *testing.T) {
	s := newSwarm(t, swarmID)
	sn := s.start("sn-0")
	cfg := s.config("/swarm/sl", sn.addr)
	var mu sync.Mutex
	var told, waits []string
	lost := make(chan struct{}, 9)
	cfg.OnQuorum = func(why, _ string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, why)
		lost <- struct{}{}
	}
	cfg.OnWait = func(why string) {
		mu.Lock()
		defer mu.Unlock()
		waits = append(waits, why)
	}
	c := must(client.New(cfg))(t)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	s.lose()
	done := make(chan error, 1)
	go func() {
		_, err := c.Report(t.Context(), &swarmv1.ReportRequest{})
		done <- err
	}()
	<-lost
	if got := c.NoQuorum(); got != "no quorum: 1 of 3 SNs answer" {
		t.Errorf("meanwhile: %q", got)
	}
	// A list that is read from the SN's own copy is no sign of a quorum.
	if _, err := c.ListNodes(t.Context()); err != nil || c.NoQuorum() == "" {
		t.Errorf("after a list: %q %v", c.NoQuorum(), err)
	}
	s.core.SetLeader("sn-0")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]string{"no quorum: 1 of 3 SNs answer", ""}, told); d != "" || len(waits) != 0 || c.NoQuorum() != "" {
		t.Errorf("told (-want +got):\n%s\nand waited for %q, then %q", d, waits, c.NoQuorum())
	}
}
