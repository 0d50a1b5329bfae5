package top

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

const manyPeers, manyRounds = 100, 10_000

// large are the documents of a swarm of 100 nodes, all of which but three train, with a history of 10,000 rounds as it is asked for.
func large(b *testing.B, now time.Time) map[string]json.RawMessage {
	b.Helper()
	stamp := func(before time.Duration) string { return now.Add(-before).UTC().Format("2006-01-02T15:04:05.000Z") }
	var nodes, health, sessions, peers []any
	var names []string
	for i := range manyPeers {
		n := map[string]any{"name": fmt.Sprintf("sl-%d", i), "role": "sl", "host": fmt.Sprintf("10.0.%d.1", i), "state": "alive", "live_since": stamp(time.Hour), "needs": manyPeers - 1, "reaches": manyPeers - 1 - i%2, "runtime": "process", "cpus": 16, "memory_bytes": 64 << 30}
		if i < 3 {
			n["role"], n["name"] = "sn", fmt.Sprintf("sn-%d", i)
		} else {
			names = append(names, n["name"].(string))
			sessions = append(sessions, map[string]any{"id": strings.Repeat("ab", 16), "node": n["name"], "live": true, "state": "open", "phase": "training", "round": manyRounds, "loss": 0.25, "metric": 0.9, "epochs_done": 400, "total_epochs": 1000, "left_seconds": 3600.5, "weight": 100, "isolation": "container, no network"})
			peers = append(peers, map[string]any{"node": n["name"], "loss": 0.25, "metric": 0.9, "weight": 100, "contributed": true, "sent": 25_000_000, "received": 26_000_000})
		}
		nodes = append(nodes, n)
		health = append(health, map[string]any{"name": n["name"], "healthy": i != 50, "reason": strings.Repeat("it can't reach another ", i/50), "leader_seen": stamp(time.Second)})
	}
	rounds := func(first, last, step int) (all []any) {
		for i := first; i <= last; i += step {
			all = append(all, map[string]any{"round": i, "planned": stamp(time.Hour), "durations_ms": map[string]any{"waiting": 12, "training": 900, "exchange": 40, "commit": 5}, "bytes_sent": 2_500_000_000, "failed": []any{}, "peers": peers, "loss": 3 / float64(i), "metric": 1 - 1/float64(i), "digest": strings.Repeat("ab", 32)})
			if i%50 == 0 {
				all[len(all)-1].(map[string]any)["failed"] = []any{map[string]any{"attempt": 1, "blamed": "sl-7", "reason": "sl-7 sent no more of its part for 15 s", "at": stamp(time.Hour)}}
			}
		}
		return all
	}
	remembered := make([]any, 1000)
	for i := range remembered {
		remembered[i] = map[string]any{"round": manyRounds - 999 + i, "attempt": 1, "digest": strings.Repeat("ab", 32), "participants": names, "next_interval": 4, "planned": stamp(time.Hour), "committed": stamp(time.Hour)}
	}
	docs := map[string]json.RawMessage{}
	for name, value := range map[string]any{
		"swarm":     map[string]any{"swarm_id": "6d9b1f9c0c9e4a57b1f0", "epoch": 1, "leader": "sn-1", "rights": []any{}},
		"nodes":     map[string]any{"nodes": nodes},
		"health":    map[string]any{"nodes": health},
		"contracts": map[string]any{"contracts": []any{map[string]any{"name": "c", "phase": "training", "open_sessions": len(sessions)}}},
		"contract/c": map[string]any{
			"name": "c", "run": 1, "phase": "training", "method": "mean", "min_peers": 2, "waiting": "waiting for " + strings.Join(names, ", ") + " (still training) since 12:00:00",
			"committed": remembered[999], "rounds": remembered, "sessions": sessions,
		},
		"explain/c": map[string]any{"explanation": []string{"contract c, run 1, is training", "waiting for " + strings.Join(names, ", ") + ": still training"}, "training_warnings": []any{}},
		"history/c": map[string]any{"run": 1, "rounds": append(rounds(1, manyRounds-100, 50), rounds(manyRounds-99, manyRounds, 1)...)},
		"increment": map[string]any{"run": 1, "after": manyRounds - repeated, "rounds": rounds(manyRounds-repeated+1, manyRounds, 1)},
	} {
		data, err := json.MarshalIndent(value, "", "  ") // as swarmctl prints it
		if err != nil {
			b.Fatal(err)
		}
		docs[name] = data
	}
	return docs
}

// shownLarge is a screen that shows them.
func shownLarge(b *testing.B) (s *screen, docs map[string]json.RawMessage) {
	b.Helper()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	docs = large(b, now)
	s = newScreen(Config{Now: func() time.Time { return now }, Contract: "c", Color: true}, nil)
	s.Update(tea.WindowSizeMsg{Width: 160, Height: 60})
	for _, name := range s.names() {
		s.asked[name] = &asked{}
		s.took(answer{name: name, value: docs[name], sn: "sn-1"}.reading())
	}
	return s, docs
}

// BenchmarkDraw draws 100 nodes, 97 peers and 10,000 rounds.
func BenchmarkDraw(b *testing.B) {
	s, _ := shownLarge(b)
	b.ReportAllocs()
	for b.Loop() {
		if s.draw() == "" {
			b.Fatal("nothing is drawn")
		}
	}
}

// BenchmarkScroll is a key and what it shows.
func BenchmarkScroll(b *testing.B) {
	s, _ := shownLarge(b)
	b.ReportAllocs()
	keys := []string{"down", "pgdown", "up", "pgup"}
	for i := 0; b.Loop(); i++ {
		s.press(keys[i%len(keys)])
		s.draw()
	}
}

// BenchmarkRead reads an answer for each document, which holds up no drawing. B/answer is how much of JSON that is.
func BenchmarkRead(b *testing.B) {
	_, docs := shownLarge(b)
	for _, name := range documents {
		b.Run(strings.ReplaceAll(name, "/", "-"), func(b *testing.B) {
			a := answer{name: strings.Replace(name, "increment", "history/c", 1), value: docs[name]}
			b.ReportAllocs()
			for b.Loop() {
				if a.reading().read == nil {
					b.Fatal("it can't be read")
				}
			}
			b.ReportMetric(float64(len(docs[name])), "B/answer")
		})
	}
}

// documents are those that are asked for; increment is a history when a round was committed.
var documents = []string{"swarm", "contracts", "nodes", "health", "contract/c", "explain/c", "history/c", "increment"}

// BenchmarkAnswer takes an answer for each document and draws it.
func BenchmarkAnswer(b *testing.B) {
	for _, name := range documents {
		b.Run(strings.ReplaceAll(name, "/", "-"), func(b *testing.B) {
			s, docs := shownLarge(b)
			a := answer{name: strings.Replace(name, "increment", "history/c", 1), value: docs[name], sn: "sn-1"}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				a = a.reading() // beside the screen
				b.StartTimer()
				s.took(a)
				s.draw()
			}
		})
	}
}
