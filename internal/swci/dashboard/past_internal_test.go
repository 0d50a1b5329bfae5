package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// training is one that has a history; all has it as its JSON.
type training struct {
	counted

	run, last uint64
	losses    map[uint64]string // of rounds; others have none
	asked     []string
}

func (s *training) Get(_ context.Context, name string) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, name)
	_, query, _ := strings.Cut(name, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	after, _ := strconv.ParseUint(q.Get("after"), 10, 64)
	var rounds []string
	for n := after + 1; n <= s.last; n++ {
		loss := s.losses[n]
		if loss == "" {
			loss = "null"
		}
		rounds = append(rounds, fmt.Sprintf(`{"round": %d, "peers": [{"node": "sl-0", "loss": %s, "sent": 7, "contributed": true}]}`, n, loss))
	}
	return json.RawMessage(fmt.Sprintf(`{"contract": "c", "run": %d, "rounds": [%s], "thinned": 0, "hidden": "in words"}`, s.run, strings.Join(rounds, ","))), nil
}

// set changes the training, and returns what was asked of it before.
func (s *training) set(change func()) (asked []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	change()
	return asked
}

// TestHistoriesGoOn: of a history that is shown only what may be new is asked for, and a page is told what it does not know: all of it at first and of another
// run, then what has changed.
func TestHistoriesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &training{run: 1, last: 100, losses: map[uint64]string{}}
		for n := range uint64(100) {
			docs.losses[n] = "0.5"
		}
		h := newHub(docs, time.Now)
		docs.follow = func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.run(ctx) })
		defer running.Wait()
		defer stop()
		const name = "history/c?points=600"
		page, leave := h.join([]string{name})
		defer leave()
		has := reached{}
		want := func(what string, whole bool, rounds ...uint64) {
			t.Helper()
			time.Sleep(period)
			synctest.Wait()
			_, told := h.news(page)
			if len(told) == 0 && len(rounds) == 0 {
				return
			}
			if len(told) != 1 {
				t.Fatalf("%s: %d documents", what, len(told))
			}
			d := told[0]
			d.Name = withoutPoints(d.Name)
			d, has = d.told(has)
			var v struct {
				After  *uint64
				Hidden string
				Rounds []struct{ Round uint64 }
			}
			if err := json.Unmarshal(d.Value, &v); err != nil {
				t.Fatalf("%s: %v: %s", what, err, d.Value)
			}
			var got []uint64
			for _, r := range v.Rounds {
				got = append(got, r.Round)
			}
			if whole {
				if v.After != nil || len(got) == 0 || got[0] != 1 || uint64(len(got)) != rounds[0] {
					t.Errorf("%s: after %v rounds %v, want all of %d", what, v.After, got, rounds[0])
				}
			} else if fmt.Sprint(got) != fmt.Sprint(rounds) || v.After == nil || *v.After != rounds[0]-1 || v.Hidden != "in words" {
				t.Errorf("%s: %s, want rounds %v", what, d.Value, rounds)
			}
		}
		want("at first", true, 100)
		docs.set(func() { docs.last = 102 })
		want("two more rounds", false, 101, 102)
		docs.set(func() { docs.losses[100] = "0.4" })
		want("a loss of an earlier one", false, 100)
		want("nothing new", false)
		asked := docs.set(func() {})
		if len(asked) == 0 || asked[len(asked)-1] != name+"&after=98" {
			t.Errorf("asked for %v", asked)
		}
		time.Sleep(openFor)
		docs.set(func() {})
		docs.set(func() { docs.losses[3] = "0.1"; docs.last = 120 })
		time.Sleep(period)
		want("many more rounds", false, span(103, 120)...)
		time.Sleep(wholeAgain)
		want("what became known long after", false, 3)
		docs.set(func() { docs.run, docs.last = 2, 9 })
		want("after a reset", true, 9)
		docs.set(func() { docs.last = 5 }) // another SN leads, which knows less
		time.Sleep(period + period/2)
		synctest.Wait()
		if asked := docs.set(func() {}); len(asked) != 2 || asked[0] != name+"&after=5" || asked[1] != name {
			t.Errorf("of a history that is shorter asked for %v", asked)
		}
		if d, is := (Document{Name: "history/c", Error: "x"}).told(has); d.Value != nil || is != (reached{}) {
			t.Errorf("after an error: %+v %v", d, is)
		}
		if d, is := (Document{Name: "nodes", Value: json.RawMessage("1")}).told(has); string(d.Value) != "1" || is != has {
			t.Errorf("another document: %+v %v", d, is)
		}
	})
}

func span(from, to uint64) (all []uint64) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// TestReadPast: what is no history is none.
func TestReadPast(t *testing.T) {
	for _, s := range []string{``, `[]`, `{}`, `{"run":1}`, `{"run":1,"rounds":[1]}`, `{"run":1,"rounds":[{"round":2},{"round":2}]}`, `{"run":-1,"rounds":[]}`, `{"run":1,"rounds":null}x`} {
		if readPast(json.RawMessage(s), 1, time.Time{}) != nil {
			t.Errorf("%s is a history", s)
		}
	}
}

// BenchmarkHistory is one round more of a history of 600 rounds and 31 peers, for a page that has it.
func BenchmarkHistory(b *testing.B) {
	history := func(from, to int) json.RawMessage {
		var rounds []string
		for n := from; n <= to; n++ {
			var peers []string
			for i := range 31 {
				peers = append(peers, fmt.Sprintf(`{"node": "hospital-%d", "loss": 0.%d, "metric": 0.5, "weight": 1, "contributed": true, "sent": 25600, "received": 25600}`, i, n))
			}
			rounds = append(rounds, fmt.Sprintf(`{"round": %d, "digest": %q, "peers": [%s]}`, n, strings.Repeat("a", 64), strings.Join(peers, ",")))
		}
		return json.RawMessage(fmt.Sprintf(`{"contract": "c", "run": 1, "rounds": [%s], "thinned": 0}`, strings.Join(rounds, ",")))
	}
	p := readPast(history(1, 600), 1, time.Time{})
	more := history(596, 601)
	for b.Loop() {
		d, _ := (Document{Name: "history/c", past: p.with(readPast(more, 2, time.Time{}), 595)}).told(reached{1, 1})
		if len(d.Value) > 20_000 {
			b.Fatal(len(d.Value))
		}
	}
}
