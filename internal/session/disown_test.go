package session_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
)

// mute commits what is opened, some time after it has said that it did not.
type mute struct {
	*swarm
	after time.Duration // negative: never
	end   *swarmv1.EndSessionRequest
}

func (m *mute) Open(ctx context.Context, req *swarmv1.OpenSessionRequest) (*swarmv1.ContractView, error) {
	if m.after >= 0 {
		time.AfterFunc(m.after, func() { _, _ = m.swarm.Open(ctx, req) })
	}
	return nil, &session.Error{Code: "TIMEOUT", Message: "no answer"}
}

func (m *mute) End(_ context.Context, req *swarmv1.EndSessionRequest) error {
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
				if _, err := e.Open(t.Context(), session.OpenRequest{Contract: "c", MinPeers: 1, SyncFrequency: 4, Method: "mean", Layout: layout}); err == nil {
					t.Fatal("it was opened")
				}
				time.Sleep(time.Minute) // of the bubble
				synctest.Wait()
				m.mu.Lock()
				defer m.mu.Unlock()
				switch {
				case after < 0 && m.end != nil:
					t.Errorf("ended %v, which was never committed", m.end)
				case after >= 0 && (m.end == nil || m.end.Session != m.view.Sessions[0].Id || m.end.Run != m.view.Run):
					t.Errorf("ended %v, want session %s of run %d", m.end, m.view.Sessions[0].Id, m.view.Run)
				}
				cancel()
				if err := <-ran; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
