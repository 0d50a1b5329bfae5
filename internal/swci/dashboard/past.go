package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxPoints bounds the rounds that a page may ask for.
	maxPoints = 10_000
	// openFor is how long more may become known of a round, and leastAgain and mostAgain are how many of the newest are asked for again.
	openFor    = 30 * time.Second
	leastAgain = 4
	mostAgain  = 300
	// wholeAgain is how long rounds are added to a history until all of it is asked for again, and maxAdded how many are: of older rounds more
	// may have become known, and some are to be left out.
	wholeAgain = 10 * time.Minute
	maxAdded   = 600
)

// withPoints adds to a history's name how many rounds the page asks for, if it says so.
func withPoints(r *http.Request, name string) (string, error) {
	points := r.URL.Query().Get("points")
	if points == "" || !isHistory(name) {
		return name, nil
	}
	if n, err := strconv.ParseUint(points, 10, 16); err != nil || n < 1 || n > maxPoints {
		return "", fmt.Errorf("points is 1 to %d, and not %.20q", maxPoints, points)
	}
	return name + "?points=" + points, nil
}

func withoutPoints(name string) string {
	name, _, _ = strings.Cut(name, "?")
	return name
}

func isHistory(name string) bool { return strings.HasPrefix(name, "history/") }

// behind adds to a history's name the round behind which it is asked for.
func behind(name string, round uint64) string {
	sign := "?"
	if strings.Contains(name, "?") {
		sign = "&"
	}
	return name + sign + "after=" + strconv.FormatUint(round, 10)
}

// past is what is known of a contract's run. It does not change: what comes later is in another one.
type past struct {
	run    uint64
	rest   map[string]json.RawMessage // keys beside the rounds
	rounds []pastRound
	read   time.Time // when all of it was
	whole  int       // rounds that were there then
}

// pastRound is a round, in the JSON that the swarm was told of it.
type pastRound struct {
	round   uint64
	raw     json.RawMessage
	version uint64    // of the history in which it came to be what it is
	came    time.Time // when it was known first
	told    bool      // no more can be told of it
}

// readPast reads a history; nil: it is none.
func readPast(value json.RawMessage, version uint64, now time.Time) *past {
	var short bytes.Buffer
	if json.Compact(&short, value) != nil {
		return nil
	}
	p := &past{read: now}
	var rounds []json.RawMessage
	if json.Unmarshal(short.Bytes(), &p.rest) != nil || json.Unmarshal(p.rest["rounds"], &rounds) != nil || json.Unmarshal(p.rest["run"], &p.run) != nil {
		return nil
	}
	delete(p.rest, "rounds")
	delete(p.rest, "after") // it is said by what a page knows
	for _, raw := range rounds {
		var r struct {
			Round uint64
			Peers []struct {
				Loss, Sent  *float64
				Contributed bool
			}
		}
		if json.Unmarshal(raw, &r) != nil || len(p.rounds) > 0 && r.Round <= p.newest() {
			return nil
		}
		x := pastRound{round: r.Round, raw: raw, version: version, came: now, told: len(r.Peers) > 0}
		for _, peer := range r.Peers {
			x.told = x.told && (!peer.Contributed || peer.Loss != nil && peer.Sent != nil)
		}
		p.rounds = append(p.rounds, x)
	}
	p.whole = len(p.rounds)
	return p
}

// newest is the number of the last round, 0 if there is none.
func (p *past) newest() uint64 {
	if len(p.rounds) == 0 {
		return 0
	}
	return p.rounds[len(p.rounds)-1].round
}

// goesOn returns the round behind which to ask for what is new; 0: all is to be asked for.
func (p *past) goesOn(now time.Time) uint64 {
	if p == nil {
		return 0
	}
	n := len(p.rounds)
	if n <= leastAgain || now.Sub(p.read) >= wholeAgain || n >= p.whole+maxAdded {
		return 0
	}
	first := n - leastAgain // of those that are asked for again
	for i := first - 1; i >= max(1, n-mostAgain); i-- {
		if now.Sub(p.rounds[i].came) > openFor {
			break
		}
		if !p.rounds[i].told {
			first = i
		}
	}
	return p.rounds[first-1].round
}

// with returns the history with what was told of rounds behind one; nil: these do not go together.
func (p *past) with(more *past, after uint64) *past {
	if more == nil || more.run != p.run || more.newest() < p.newest() || string(more.rest["thinned"]) != "0" {
		return nil
	}
	kept, _ := slices.BinarySearchFunc(p.rounds, after+1, func(r pastRound, round uint64) int { return cmp.Compare(r.round, round) })
	next := &past{run: p.run, rest: more.rest, rounds: slices.Clone(p.rounds[:kept]), read: p.read, whole: p.whole}
	next.rest["thinned"] = p.rest["thinned"]
	next.take(more.rounds, p.rounds[kept:])
	return next
}

// again returns what was read anew in place of an earlier history: rounds that are as they were stay those that they were.
func (p *past) again(earlier *past) *past {
	if p == nil || earlier == nil || earlier.run != p.run {
		return p
	}
	next := &past{run: p.run, rest: p.rest, read: p.read, whole: p.whole}
	next.take(p.rounds, earlier.rounds)
	return next
}

// take adds rounds, of which some were known before.
func (p *past) take(rounds, before []pastRound) {
	for _, r := range rounds {
		for len(before) > 0 && before[0].round < r.round {
			before = before[1:]
		}
		if len(before) > 0 && before[0].round == r.round {
			r.came = before[0].came
			if bytes.Equal(before[0].raw, r.raw) {
				r = before[0]
			}
		}
		p.rounds = append(p.rounds, r)
	}
}

// same reports whether a page that knows one is told nothing new by the other.
func (p *past) same(q *past) bool {
	return maps.EqualFunc(p.rest, q.rest, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) &&
		slices.EqualFunc(p.rounds, q.rounds, func(a, b pastRound) bool { return a.round == b.round && a.version == b.version })
}

// reached is how far a page knows the history of a contract's run.
type reached struct{ run, version uint64 }

// told returns of a history what a page does not know of it; of another run all, and so after an error, which a page has in its place. What is no
// history stays as it is.
func (d Document) told(has reached) (Document, reached) {
	if !isHistory(d.Name) {
		return d, has
	}
	p := d.past
	if p == nil {
		return d, reached{}
	}
	now := reached{run: p.run}
	news := []json.RawMessage{}
	after := p.newest()
	whole := has.version == 0 || has.run != p.run
	for _, r := range p.rounds {
		now.version = max(now.version, r.version)
		if whole || r.version > has.version {
			news = append(news, r.raw)
			after = min(after, r.round-1)
		}
	}
	value := maps.Clone(p.rest)
	value["rounds"], _ = json.Marshal(news) // they were read from JSON
	if !whole {
		value["after"] = json.RawMessage(strconv.FormatUint(after, 10))
	}
	d.Value, _ = json.Marshal(value) // likewise
	return d, now
}
