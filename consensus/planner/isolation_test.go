package planner_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

func TestOpenedIsolationIsLoggedOnceOnEverySN(t *testing.T) {
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leads=%t", leads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, words := newFakeLog(), &buffer{}
				log.leader.Store(leads)
				apply := func(c state.Command) {
					if _, err := log.apply(c); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- planner.New(planner.Config{}, log, slog.New(slog.NewTextHandler(words, nil))).Run(ctx) }()
				open := func(n int, isolation string) {
					node := fmt.Sprintf("sl-%d", n)
					apply(state.RegisterNode{Node: state.Node{Name: node, Role: naming.RoleSL, PeerID: "key-" + node}, TokenHash: strings.Repeat("1", 64), AtMS: time.Now().UnixMilli()})
					apply(state.OpenSession{
						Session: fmt.Sprintf("%032x", n), Contract: contractName, Node: node, SyncFrequency: 16, Weight: 1, Isolation: isolation,
						Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("a"), Leaves: 10, Method: "mean", MinPeers: 9},
					})
				}
				open(1, "container, no network")
				open(2, "container, open: network lan")
				open(3, "none: process runtime")
				time.Sleep(time.Second)
				apply(state.EndSession{Session: fmt.Sprintf("%032x", 2), Contract: contractName, Run: 1, Reason: state.EndFinished})
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				said := words.lines("level=WARN")
				if len(said) != 1 || !strings.Contains(said[0], `node=sl-2`) || !strings.Contains(said[0], `isolation="container, open: network lan"`) {
					t.Errorf("warnings: %q", said)
				}
			})
		})
	}
}

// buffer is a log's destination that may be read at any time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// lines returns the lines that hold a text.
func (b *buffer) lines(text string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for line := range strings.Lines(b.b.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}
