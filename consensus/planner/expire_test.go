package planner_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestLeaderRemovesUnusedContracts: the sessions of one of two contracts have ended long ago.
func TestLeaderRemovesUnusedContracts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		log.leader.Store(true)
		apply := func(c state.Command) {
			if _, err := log.apply(c); err != nil {
				t.Fatal(err)
			}
		}
		apply(state.RegisterNode{Node: state.Node{Name: "sl-0", Role: naming.RoleSL, PeerID: "key"}, TokenHash: strings.Repeat("1", 64), AtMS: time.Now().UnixMilli()})
		for i, at := range []int64{time.Now().UnixMilli() - state.UnusedMS, time.Now().UnixMilli()} {
			id, name := fmt.Sprintf("%032x", i), fmt.Sprintf("study-%d", i)
			apply(state.OpenSession{
				Session: id, Contract: name, Node: "sl-0", SyncFrequency: 16, Weight: 1, AtMS: at,
				Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("a"), Leaves: 10, Method: "mean", MinPeers: 9},
			})
			apply(state.EndSession{Session: id, Contract: name, Run: 1, Reason: "failed", AtMS: at})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- planner.New(planner.Config{}, log, slog.New(slog.DiscardHandler)).Run(ctx) }()
		time.Sleep(2 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if view := log.View(); view.Contracts["study-0"] != nil || view.Contracts["study-1"] == nil {
			t.Errorf("left are %v", view.ContractNames())
		}
	})
}
