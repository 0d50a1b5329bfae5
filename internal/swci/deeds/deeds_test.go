package deeds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/swci/deeds"
)

// TestWhoDidWhat: every kind of record that says what somebody did, in words.
func TestWhoDidWhat(t *testing.T) {
	by := &ledger.Order{By: "ann"}
	for want, body := range map[string]ledger.Body{
		"ann made task pull ":                                           ledger.Task{Task: "pull", By: "ann"},
		"ann finalised task pull ":                                      ledger.FinalTask{Task: "pull", Digest: "d", Order: by},
		"ann deleted task pull ":                                        ledger.DeletedTask{Task: "pull", Order: by},
		"ann assigned assignment 7 of task pull to taskrunner tr ":      ledger.Assigned{Assignment: "7", Task: "pull", Taskrunner: "tr", By: "ann"},
		"ann assigned assignment 8 of task pull beside 7 on h-0, h-1 ":  ledger.Assigned{Assignment: "8", Task: "pull", Joins: "7", Hosts: []string{"h-0", "h-1"}, By: "ann"},
		"sl assigned assignment 9 of task job beside SL sl-1 on h-0 ":   ledger.Assigned{Assignment: "9", Task: "job", JobTerms: ledger.JobTerms{Beside: "sl-1"}, Hosts: []string{"h-0"}, By: "sl"},
		"bob approved assignment 7 of task pull on h-0 ":                ledger.Approval{Assignment: "7", Task: "pull", Host: "h-0", By: "bob"},
		"bob refused assignment 7 of task pull on h-0 not today":        ledger.Approval{Assignment: "7", Task: "pull", Host: "h-0", Refused: true, Reason: "not today", By: "bob"},
		" succeeded assignment 7 of task pull h-0 exited":               ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "succeeded", Members: []ledger.Member{{Node: "h-0", State: "exited"}}},
		"ann cancelled assignment 7 of task pull enough":                ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "cancelled", Reason: "enough", Order: by},
		" failed assignment 7 of task pull why; h-0 exited with code 3": ledger.EndedAssignment{Assignment: "7", Task: "pull", Verdict: "failed", Reason: "why", Members: []ledger.Member{{Node: "h-0", State: "exited", Code: 3}}},
		" failed assignment 7 of task job host_lost: why; h-0 lost":     ledger.EndedAssignment{Assignment: "7", Task: "job", Verdict: "failed", Reason: "why", End: "host_lost", Members: []ledger.Member{{Node: "h-0", State: "lost"}}},
		" succeeded assignment 7 of task job ttl":                       ledger.EndedAssignment{Assignment: "7", Task: "job", Verdict: "succeeded", End: "ttl"},
		"ann set rights sentences: 2 ":                                  ledger.Rights{Sentences: []string{"a", "b"}, By: "ann"},
		"ann set rules contract c, run 1 ":                              ledger.Rules{Contract: "c", Run: 1, Order: by},
		"ann paused contract c, run 1 ":                                 ledger.Pause{Contract: "c", Run: 1, Order: by},
		"ann resumed contract c, run 1 ":                                ledger.Resume{Contract: "c", Run: 1, Order: by},
		"ann ended contract c, run 1 ":                                  ledger.End{Contract: "c", Run: 1, Order: by},
		"ann reset contract c, run 2 ":                                  ledger.Reset{Contract: "c", Run: 2, Order: by},
		"ann deleted contract c, run 2 ":                                ledger.Deleted{Contract: "c", Run: 2, Order: by},
		" expired contract c, run 2 ":                                   ledger.Deleted{Contract: "c", Run: 2, Expired: true},
		" over round 9 of contract c, run 2 ":                           ledger.Over{Contract: "c", Run: 2, Round: 9},
		" lost round 9 of contract c, run 2 ":                           ledger.LostModel{Contract: "c", Run: 2, Round: 9},
		" adopted round 9 of contract c, run 2 ":                        ledger.AdoptedRound{Round: 9, Proof: ledger.Round{Contract: "c", Run: 2}},
		"ann fetched round 9 of contract c, run 2 from sl-0 ":           ledger.Fetch{Contract: "c", Run: 2, Round: 9, Node: "sl-0", By: "ann"},
		"spiffe://x registered node sl-0 ":                              ledger.Registration{Node: "sl-0", SPIFFEID: "spiffe://x"},
		"ann forgot node sl-0 ":                                         ledger.Forget{Node: "sl-0", Order: by},
		"ann banned node sl-0 why":                                      ledger.Ban{Node: "sl-0", PeerID: "k", Reason: "why", By: "ann"},
		"ann unbanned node key k ":                                      ledger.Unban{PeerID: "k", Order: by},
		"ann admitted node sn-1 ":                                       ledger.Admission{Node: "sn-1", By: "ann"},
		"ann invited node sn-1 ":                                        ledger.Invitation{Node: "sn-1", By: "ann"},
		"ann founded the SNs anew node sn-1 ":                           ledger.Recovery{Node: "sn-1", By: "ann"},
		" unbanned node key k ":                                         ledger.Unban{PeerID: "k"}, // of before orders were signed
	} {
		d, ok := deeds.FromRecord(3, 9, body)
		if got := fmt.Sprint(d.By, " ", d.Does, " ", d.What(), " ", d.Why()); !ok || got != want || d.Record != 3 || d.AtMS != 9 {
			t.Errorf("%+v: got %q, want %q", d, got, want)
		}
	}
	for _, body := range []ledger.Body{ledger.Swarm{}, ledger.Bundle{}, ledger.Round{}, ledger.Program{}} {
		if d, ok := deeds.FromRecord(1, 1, body); ok {
			t.Errorf("%s is taken for %+v", body.Kind(), d)
		}
	}
}

func TestFilter(t *testing.T) {
	ann, err := pattern.Parse("spiffe://a.example/swarm/swci/*")
	if err != nil {
		t.Fatal(err)
	}
	d := deeds.Deed{AtMS: 10, By: "spiffe://a.example/swarm/swci/ann", Task: "pull"}
	for i, tt := range []struct {
		filter deeds.Filter
		want   bool
	}{
		{deeds.Filter{}, true},
		{deeds.Filter{Task: "pull", Who: &ann, SinceMS: 10}, true},
		{deeds.Filter{Task: "run"}, false},
		{deeds.Filter{Contract: "pull"}, false},
		{deeds.Filter{Job: "pull"}, false},
		{deeds.Filter{SinceMS: 11}, false},
		{deeds.Filter{Who: &pattern.Pattern{}}, false},
	} {
		if got := tt.filter.Takes(&d); got != tt.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	run := deeds.Deed{Task: "grid.0123abcd"}
	for job, want := range map[string]bool{"grid": true, "gri": false, "grid.0123abcd": false} {
		if got := (deeds.Filter{Job: job}).Takes(&run); got != want {
			t.Errorf("job %s: %v", job, got)
		}
	}
	d.By = ""
	if (deeds.Filter{Who: &ann}).Takes(&d) {
		t.Error("what nobody did is taken for somebody's")
	}
}

func TestSince(t *testing.T) {
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-26":                now.Add(-32 * time.Hour),
		"2026-11-26T08:00:00Z":      now.Add(-24 * time.Hour),
		"2026-11-26T09:00:00+01:00": now.Add(-24 * time.Hour),
		"2026-11-26 08:00:00":       now.Add(-24 * time.Hour),
		"90m":                       now.Add(-90 * time.Minute),
		"7d":                        now.AddDate(0, 0, -7),
	} {
		if got, err := deeds.Since(text, now); err != nil || got != want.UnixMilli() {
			t.Errorf("%s: %v, %v", text, time.UnixMilli(got).UTC(), err)
		}
	}
	for _, text := range []string{"", "d", "-1h", "yesterday", "99999999999d"} {
		if got, err := deeds.Since(text, now); err == nil || !strings.Contains(err.Error(), "is no time") {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
