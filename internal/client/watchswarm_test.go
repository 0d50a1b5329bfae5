package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
)

// TestOperatorsWatchTheSwarm: each change is told, also when the SN that tells of it dies.
func TestOperatorsWatchTheSwarm(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	s.start("sn-1")
	op := client.Operator{Client: s.client("/swarm/swci", nil, a.addr)}
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- op.WatchSwarm(ctx, func() { told <- struct{}{} }) }()
	<-told // of what there is
	change := func(contract string) {
		must(s.core.Propose(ctx, state.CreateContract{Contract: contract}))(t)
		<-told
	}
	change("one")
	a.kill()
	<-told // by the other SN, which is asked then
	change("two")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}
