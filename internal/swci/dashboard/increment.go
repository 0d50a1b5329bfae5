package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// repeated is how many of the rounds that a page has are told again: more may have become known of them.
const repeated = 8

// maxPoints bounds the rounds that a page may ask for.
const maxPoints = 10_000

// withPoints adds to a history's name how many rounds the page asks for, if it says so.
func withPoints(r *http.Request, name string) (string, error) {
	points := r.URL.Query().Get("points")
	if points == "" || !strings.HasPrefix(name, "history/") {
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

// reached is how far a page knows the rounds of a contract's run.
type reached struct{ run, round uint64 }

// increment returns of a history the rounds that a page does not have, with the newest of those that it has; of another run all, and so after
// an error, which a page has in place of them. What is no history stays as it is.
func increment(d Document, has reached) (Document, reached) {
	var keys map[string]json.RawMessage
	var rounds []json.RawMessage
	now := reached{}
	if !strings.HasPrefix(d.Name, "history/") {
		return d, has
	}
	if json.Unmarshal(d.Value, &keys) != nil || json.Unmarshal(keys["rounds"], &rounds) != nil || json.Unmarshal(keys["run"], &now.run) != nil {
		return d, reached{}
	}
	after := has.round - min(has.round, repeated)
	var news []json.RawMessage
	for _, raw := range rounds {
		var r struct{ Round uint64 }
		if json.Unmarshal(raw, &r) != nil {
			return d, reached{}
		}
		if now.round = max(now.round, r.Round); r.Round > after {
			news = append(news, raw)
		}
	}
	if has.run != now.run || has.round == 0 || len(news) == len(rounds) {
		return d, now
	}
	value, err := json.Marshal(struct {
		Contract json.RawMessage   `json:"contract"`
		Run      uint64            `json:"run"`
		After    uint64            `json:"after"`
		Rounds   []json.RawMessage `json:"rounds"`
		Thinned  json.RawMessage   `json:"thinned"`
		Recorded json.RawMessage   `json:"recorded"`
		Reported json.RawMessage   `json:"reported"`
	}{keys["contract"], now.run, after, news, keys["thinned"], keys["recorded"], keys["reported"]})
	if err != nil {
		return d, reached{}
	}
	d.Value = value
	return d, now
}
