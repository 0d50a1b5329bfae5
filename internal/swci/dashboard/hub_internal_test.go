package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

// counted counts the questions for its documents.
type counted struct {
	Documents

	mu     sync.Mutex
	asked  map[string]int
	follow func(ctx context.Context, changed func()) error
}

func (c *counted) Kind(name string) Kind {
	return Kind{There: true, Slow: name == "events", Agreed: name == "tasks", Seldom: strings.HasPrefix(name, "node/")}
}

func (c *counted) Link() (string, error) { return "sn-1", nil }

func (c *counted) Get(_ context.Context, name string) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[name]++; name == "node/closed" {
		return nil, exit.New(exit.Denied, "ask its owner", "it hands out nothing")
	}
	return json.RawMessage(fmt.Sprint(c.asked[name])), nil
}

func (c *counted) Follow(ctx context.Context, changed func()) error { return c.follow(ctx, changed) }

// questions returns how often each document was asked for since it was called last.
func (c *counted) questions() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.asked
	c.asked = map[string]int{}
	return out
}

// TestChangesAreTold: what changes is asked for at once, but no more than twice a second, and what is of the swarm's state alone seldom without a
// change. Where no changes are told all is asked for as often.
func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tell func()
		told := make(chan error)
		docs := &counted{asked: map[string]int{}, follow: func(ctx context.Context, changed func()) error {
			tell = changed
			changed()
			select {
			case err := <-told:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		h := newHub(docs, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		defer running.Wait()
		defer stop()
		_, leave := h.join([]string{"nodes", "tasks", "events"})
		defer leave()
		time.Sleep(period / 8) // behind the tick
		docs.questions()
		want := func(what string, of time.Duration, nodes, tasks, events int) {
			t.Helper()
			time.Sleep(of)
			synctest.Wait()
			if got := docs.questions(); got["nodes"] != nodes || got["tasks"] != tasks || got["events"] != events {
				t.Errorf("%s: asked for %v, want nodes %d, tasks %d, events %d", what, got, nodes, tasks, events)
			}
		}
		want("without a change", 20*time.Second, 10, 2, 10)
		time.Sleep(3 * time.Second / 2)
		docs.questions()
		tell()
		time.Sleep(period / 4)
		if asked := docs.questions(); asked["nodes"] == 0 || asked["tasks"] == 0 {
			t.Errorf("after a change: asked for %v", asked)
		}
		for range 100 {
			tell()
			time.Sleep(10 * time.Millisecond)
		}
		if asked := docs.questions(); asked["tasks"] < 1 || asked["tasks"] > 3 || asked["events"] > 1 {
			t.Errorf("changes all the time: asked for %v in a second", asked)
		}
		told <- errors.New("of before")
		time.Sleep(seldom)
		docs.questions()
		told = make(chan error)
		want("where no changes are told", 4*time.Second, 2, 2, 2)
	})
}

// busy is a swarm of which contract a changes all the time, and the rest when it is told to.
type busy struct {
	counted
	rest atomic.Int64
}

func (b *busy) Kind(name string) Kind {
	return Kind{There: true, Agreed: name == "tasks", Apart: name == "health"}
}

func (b *busy) Get(ctx context.Context, name string) (json.RawMessage, error) {
	value, err := b.counted.Get(ctx, name)
	if name != "contract/a" {
		value = json.RawMessage(fmt.Sprint(b.rest.Load()))
	}
	return value, err
}

// TestChangesOfOthers: while one contract changes all the time the others are asked for as often as without that, and what is of nodes too. A
// change after a pause may be of any.
func TestChangesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tell func()
		docs := &busy{counted: counted{asked: map[string]int{}, follow: func(ctx context.Context, changed func()) error {
			tell = changed
			<-ctx.Done()
			return ctx.Err()
		}}}
		h := newHub(docs, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		defer running.Wait()
		defer stop()
		page, leave := h.join([]string{"contract/a", "contract/b", "tasks", "health"})
		defer leave()
		synctest.Wait()
		training := func(of time.Duration) map[string]int {
			docs.questions()
			for range of / (100 * time.Millisecond) {
				tell()
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			return docs.questions()
		}
		training(4 * time.Second)
		if asked := training(20 * time.Second); asked["contract/a"] < 30 || asked["contract/a"] > 40 || asked["contract/b"] > 10 || asked["tasks"] > 10 || asked["tasks"] < 9 || asked["health"] != 10 {
			t.Errorf("within 20 s of changes of contract a: asked for %v", asked)
		}
		h.news(page)
		docs.rest.Store(7)
		training(period + soon)
		if h.news(page); string(h.shown["tasks"].doc.Value) != "7" || string(h.shown["contract/b"].doc.Value) != "7" {
			t.Errorf("%s after a change of the rest: %s, %s", period, h.shown["tasks"].doc.Value, h.shown["contract/b"].doc.Value)
		}
		time.Sleep(period + period/8)
		docs.questions()
		time.Sleep(soon)
		tell()
		time.Sleep(soon)
		synctest.Wait()
		if asked := docs.questions(); asked["tasks"] != 1 || asked["contract/b"] == 0 {
			t.Errorf("after a change that comes alone: asked for %v", asked)
		}
	})
}

// between is a swarm that is lost, and of whose SNs another one is asked each time.
type between struct {
	counted
	turn int
}

func (b *between) Kind(string) Kind { return Kind{There: true, Link: true} }

func (b *between) Link() (string, error) {
	b.turn++
	return fmt.Sprintf("sn-%d", b.turn), nil
}

func (b *between) Get(context.Context, string) (json.RawMessage, error) {
	return nil, exit.New(exit.Unreachable, "start one", "no SN answers")
}

// TestWhichSNIsAskedInVainIsNoNews: a page that is stale is told so once.
func TestWhichSNIsAskedInVainIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h := newHub(&between{counted: counted{follow: func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }}}, time.Now)
		var wg sync.WaitGroup
		wg.Go(func() { h.run(ctx) })
		page, leave := h.join([]string{"nodes"})
		time.Sleep(5 * time.Second)
		if link, _ := h.news(page); link == nil || link.State != "stale" || link.Problem != "no SN answers" {
			t.Errorf("told of %+v", link)
		}
		time.Sleep(time.Minute)
		if link, _ := h.news(page); link != nil {
			t.Errorf("told again of %+v", link)
		}
		leave()
		stop()
		wg.Wait()
	})
}

// silent is a swarm whose SN does not answer until it is let.
type silent struct {
	Documents

	answers chan struct{}
}

func (s *silent) Kind(string) Kind { return Kind{There: true, Link: true} }

func (s *silent) Link() (string, error) { return "sn-1", nil }

func (s *silent) Get(ctx context.Context, _ string) (json.RawMessage, error) {
	select {
	case <-s.answers:
		return json.RawMessage("1"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *silent) Follow(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestSilenceIsTold: a page is told that no SN answers long before the question is given up, and that one does as soon as it is so.
func TestSilenceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &silent{answers: make(chan struct{})}
		h := newHub(docs, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		defer running.Wait()
		defer stop()
		page, leave := h.join([]string{"nodes"})
		defer leave()
		linked := func() Link {
			synctest.Wait()
			link, _ := h.news(page)
			if link == nil {
				return Link{}
			}
			return *link
		}
		if got := linked(); got.State != "live" {
			t.Errorf("at first: %+v", got)
		}
		time.Sleep(maxSilence - time.Second)
		if got := linked(); got.State != "" && got.State != "live" {
			t.Errorf("before: %+v", got)
		}
		time.Sleep(2 * time.Second)
		if got := linked(); got.State != "stale" || got.Problem != "no SN has answered for 6 s" || got.Remedy == "" {
			t.Errorf("after %s: %+v", maxSilence, got)
		}
		close(docs.answers)
		if got := linked(); got.State != "live" || got.Problem != "" {
			t.Errorf("with an answer: %+v", got)
		}
	})
}

// crowded is a swarm that answers what says that it can be asked, and nothing else.
type crowded struct{ silent }

func (c *crowded) Kind(name string) Kind { return Kind{There: true, Link: name == "nodes"} }

func (c *crowded) Get(ctx context.Context, name string) (json.RawMessage, error) {
	if name == "nodes" {
		return json.RawMessage("1"), nil
	}
	return c.silent.Get(ctx, name)
}

// TestSlowDocumentsAreNoSilence: documents that do not come keep the question waiting on which it rests whether the page is live no moment.
func TestSlowDocumentsAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(&crowded{}, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		defer running.Wait()
		defer stop()
		page, leave := h.join([]string{"contract/a", "contract/b", "explain/a", "explain/b", "health"})
		defer leave()
		time.Sleep(time.Second)
		_, leaveNodes := h.join([]string{"nodes"})
		defer leaveNodes()
		for range 20 {
			time.Sleep(time.Second)
			synctest.Wait()
			if link, _ := h.news(page); link != nil && link.State != "live" {
				t.Fatalf("told of %+v", link)
			}
		}
	})
}

// TestNodesAreAskedSeldom: a node is asked every 10 s while a page shows it, whatever changes in the swarm, and one that refuses once a minute.
func TestNodesAreAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &counted{asked: map[string]int{}, follow: func(ctx context.Context, changed func()) error {
			for ctx.Err() == nil {
				changed()
				time.Sleep(soon)
			}
			return nil
		}}
		h := newHub(docs, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		defer running.Wait()
		defer stop()
		_, leave := h.join([]string{"node/open", "node/closed"})
		defer leave()
		time.Sleep(3*time.Minute + period)
		synctest.Wait()
		if got := docs.questions(); got["node/open"] != 19 || got["node/closed"] != 4 {
			t.Errorf("asked for %v", got)
		}
	})
}
