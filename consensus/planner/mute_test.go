package planner_test

import (
	"strings"
	"testing"
	"time"
)

// TestWhoLivesAndSaysNothing: one participant neither finishes nor fails, while the others have finished.
func TestWhoLivesAndSaysNothing(t *testing.T) {
	const merging = 10 * time.Second
	tests := []struct {
		name     string
		minPeers uint32
		speaks   time.Duration // after the others have finished; 0: never
		out      bool
	}{
		{"for ever", 2, 0, true},
		{"for ever, and is needed", 3, 0, false},
		{"for as long as a slow link needs", 2, merging + time.Minute - time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, tt.minPeers, 3)
			b.ready(1, 0, 1, 2)
			b.follow()
			b.now = b.now.Add(merging)
			b.tells(0, word{done: true})
			b.tells(1, word{done: true})
			finished := b.now
			for plan := b.contract().Plan; ; b.now = b.now.Add(100 * time.Millisecond) {
				took := b.now.Sub(finished)
				if tt.speaks > 0 && took >= tt.speaks {
					b.tells(2, word{done: true})
				}
				w := b.follow()
				now := b.contract().Plan
				if now == nil { // committed
					if tt.speaks == 0 {
						t.Fatalf("committed after %s", took)
					}
					return
				}
				if now.Attempt == plan.Attempt {
					if took > merging+time.Minute+2*time.Second {
						t.Fatalf("still attempt %d after %s: %s", now.Attempt, took, w)
					}
					continue
				}
				switch left := now.Participant(id(2)) == nil; {
				case left != tt.out:
					t.Errorf("left out: %t, want %t", left, tt.out)
				case took < merging+time.Minute:
					t.Errorf("the attempt was given up after %s", took)
				case !strings.Contains(b.contract().PendingReason, "sl-2: reports neither success nor failure"):
					t.Errorf("reason: %q", b.contract().PendingReason)
				}
				return
			}
		})
	}
}

// TestWhoFinishesTooSoon: a word of success that most do not share cuts no attempt short, however early it comes.
func TestWhoFinishesTooSoon(t *testing.T) {
	const n = 5
	b := newTable(t, 2, n)
	b.ready(1, 0, 1, 2, 3, 4)
	b.follow()
	plan := b.contract().Plan
	b.tells(0, word{done: true})
	b.tells(1, word{done: true})
	for end := b.now.Add(5 * time.Minute); b.now.Before(end); b.now = b.now.Add(time.Second) {
		w := b.follow()
		if now := b.contract().Plan; now == nil || now.Attempt != plan.Attempt {
			t.Fatalf("the others' merge was cut short: %s; left out: %s", w, b.leftOut(n))
		}
	}
}
