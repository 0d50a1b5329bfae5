package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

// slowly answers for its documents when it is let, and says that the swarm can't be asked for "swarm".
type slowly struct {
	counted

	let chan struct{} // nil: at once
}

func (*slowly) Kind(name string) Kind { return Kind{There: true, Link: name == "swarm"} }

func (s *slowly) Get(ctx context.Context, name string) (json.RawMessage, error) {
	if s.let != nil {
		<-s.let
	}
	if name == "swarm" {
		return nil, &exit.Error{Status: exit.Unreachable, Err: errors.New("no SN answers")}
	}
	return s.counted.Get(ctx, name)
}

func running(t *testing.T, docs Documents) (h *hub, stop func()) {
	t.Helper()
	h = newHub(docs, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { h.run(ctx) })
	return h, func() {
		cancel()
		all.Wait()
	}
}

func unchanging(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLinkOfWhoStays: once nobody shows the document that said that the swarm can't be asked, the link is not stale any more.
func TestLinkOfWhoStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, stop := running(t, &slowly{counted: counted{asked: map[string]int{}, follow: unchanging}})
		defer stop()
		_, leave := h.join([]string{"swarm"})
		stays, end := h.join([]string{"tasks"})
		defer end()
		time.Sleep(period)
		if link, _ := h.news(stays); link == nil || link.State != "stale" {
			t.Errorf("the link is %+v, want a stale one", link)
		}
		leave()
		if link, _ := h.news(stays); link == nil || link.State != "live" || link.Problem != "" {
			t.Errorf("the link is %+v, want a live one", link)
		}
	})
}

// TestAnswerToWhoLeft: an answer to a page that has gone does not have the document asked for twice at a time for one that came meanwhile.
func TestAnswerToWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &slowly{counted: counted{asked: map[string]int{}, follow: unchanging}, let: make(chan struct{})}
		h, stop := running(t, docs)
		defer stop()
		defer close(docs.let)
		_, leave := h.join([]string{"tasks"})
		synctest.Wait()
		leave()
		_, end := h.join([]string{"tasks"})
		defer end()
		synctest.Wait()
		docs.let <- struct{}{} // to the one or the other
		synctest.Wait()
		time.Sleep(2 * period)
		h.mu.Lock()
		asking := len(h.slot)
		h.mu.Unlock()
		if asking != 1 {
			t.Errorf("the document is asked for %d times at once", asking)
		}
	})
}
