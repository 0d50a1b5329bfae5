package session_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
)

// mute commits what is opened, some time after it has said that it did not.
type mute struct {
	*swarm
	after time.Duration // negative: never
	end   round.End
}

func (m *mute) Open(ctx context.Context, req *round.Open) (*round.View, error) {
	if m.after >= 0 {
		time.AfterFunc(m.after, func() { _, _ = m.swarm.Open(ctx, req) })
	}
	return nil, &session.Error{Code: "TIMEOUT", Message: "no answer"}
}

func (m *mute) End(_ context.Context, req round.End) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = req
	return nil
}

// TestRefusedSessionIsNotLeftOpen: a session that was committed although its opening failed here is ended.
func TestRefusedSessionIsNotLeftOpen(t *testing.T) {
	for name, after := range map[string]time.Duration{"committed": 0, "committed later": 9 * time.Second, "never committed": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mute{swarm: newSwarm(), after: after}
				e := session.New(session.Config{Peer: "me", Control: m, Explainer: m, Exchange: m, NewSlots: newSlots, Log: slog.New(slog.DiscardHandler)})
				ctx, cancel := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- e.Run(ctx) }()
				synctest.Wait()
				layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{2}}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.Open(t.Context(), round.Open{Contract: "c", Terms: round.Terms{MinPeers: 1, Method: "mean"}, SyncFrequency: 4}, layout); err == nil {
					t.Fatal("it was opened")
				}
				time.Sleep(time.Minute) // of the bubble
				synctest.Wait()
				m.mu.Lock()
				defer m.mu.Unlock()
				switch {
				case after < 0 && m.end.Session != "":
					t.Errorf("ended %v, which was never committed", m.end)
				case after >= 0 && (m.end.Session == "" || m.end.Session != m.view.Sessions[0].ID || m.end.Run != m.view.Run):
					t.Errorf("ended %v, want session %s of run %d", m.end, m.view.Sessions[0].ID, m.view.Run)
				}
				cancel()
				if err := <-ran; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
