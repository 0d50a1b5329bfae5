package identity_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
)

const day = 24 * time.Hour

func TestExpiryWarning(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		life time.Duration
		left time.Duration
		want string // part of the text, "" for none
	}{
		{"fresh month", 30 * day, 29 * day, ""},
		{"a week and a minute", 30 * day, 7*day + time.Minute, ""},
		{"less than a week", 30 * day, 7*day - time.Minute, "less than a week, at 2026-01-31 00:00:00 UTC"},
		{"less than a day", 30 * day, day - time.Minute, "less than a day"},
		{"less than an hour", 30 * day, time.Hour - time.Minute, "less than an hour"},
		{"expired", 30 * day, -time.Minute, "expired at 2026-01-31"},
		{"at its very end", 30 * day, 0, "expired"},
		{"two weeks are too short for a week's warning", 14 * day, 6 * day, ""},
		{"but not for a day's", 14 * day, 23 * time.Hour, "less than a day"},
		{"an SVID of an hour", time.Hour, time.Minute, ""},
		{"an SVID of two days", 2 * day, 23 * time.Hour, ""},
		{"an SVID of two days, at its end", 2 * day, 59 * time.Minute, "less than an hour"},
		{"an expired SVID", time.Hour, -time.Second, "expired"},
	} {
		got := identity.ExpiryWarning(start, start.Add(tt.life), start.Add(tt.life-tt.left))
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestExpiryLogSaysEachStepOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := identity.Status{NotBefore: start, NotAfter: start.Add(30 * day)}
	var e identity.ExpiryLog
	if e.Check(identity.Status{Origin: "certificate file /c.pem"}, false, start, log) || out.Len() > 0 {
		t.Errorf("a source without a certificate is judged:\n%s", out.String())
	}
	told := 0
	for at := start; at.Before(st.NotAfter.Add(day)); at = at.Add(10 * time.Minute) {
		if e.Check(st, false, at, log) {
			told++
		}
	}
	if n := strings.Count(out.String(), "\n"); told != 4 || n != 4 { // week, day, hour, expired
		t.Errorf("told %d times, %d lines:\n%s", told, n, out.String())
	}
	// A renewed certificate starts again.
	st.NotBefore, st.NotAfter = st.NotAfter, st.NotAfter.Add(30*day)
	if e.Check(st, false, st.NotBefore.Add(day), log) || !e.Check(st, false, st.NotAfter.Add(-6*day), log) {
		t.Error("a renewed certificate is not judged afresh")
	}
}

func TestExpiryLogOfRotatingSVID(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := identity.Status{NotBefore: start, NotAfter: start.Add(time.Hour)}
	var e identity.ExpiryLog
	if e.Check(st, true, start.Add(39*time.Minute), log) {
		t.Error("warned while more than a third was left")
	}
	if !e.Check(st, true, start.Add(41*time.Minute), log) || e.Check(st, true, start.Add(42*time.Minute), log) {
		t.Error("not warned once of an SVID that was not renewed")
	}
	if !strings.Contains(out.String(), "not renewed on schedule") {
		t.Error(out.String())
	}
	if w := identity.Warnings(st.NotBefore, st.NotAfter, start.Add(41*time.Minute), true); len(w) != 1 || !strings.Contains(w[0], "not renewed on schedule") {
		t.Errorf("warnings %q", w)
	}
	if w := identity.Warnings(st.NotBefore, st.NotAfter, start.Add(41*time.Minute), false); len(w) != 0 {
		t.Errorf("warnings of a certificate that nobody renews %q", w)
	}
}

func TestValidity(t *testing.T) {
	from, until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		now  time.Time
		want []string
	}{
		{from, nil},
		{until, nil},
		{from.Add(-90 * time.Second), []string{"not valid yet", "from 2026-01-01 00:00:00 UTC", "clock says 2025-12-31 23:58:30 UTC", "at least 1m30s"}},
		{until.Add(25 * time.Hour), []string{"has expired", "until 2026-02-01 00:00:00 UTC", "clock says 2026-02-02 01:00:00 UTC", "at least 1 d 1 h"}},
	} {
		got := identity.Validity(from, until, tt.now)
		if (got == "") != (tt.want == nil) {
			t.Errorf("at %s: %q", tt.now, got)
		}
		for _, w := range tt.want {
			if !strings.Contains(got, w) {
				t.Errorf("at %s: %q lacks %q", tt.now, got, w)
			}
		}
	}
}
