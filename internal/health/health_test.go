package health_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/health"
)

func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	// life is a certificate that began so long ago and ends so far ahead.
	life := func(began, left time.Duration) identity.Status {
		return identity.Status{Origin: "Workload API at /run/agent.sock", NotBefore: at(-began), NotAfter: at(left)}
	}
	const day = 24 * time.Hour
	files := life(21*day, 9*day)
	files.Origin = "files /etc/swarm/cert.pem"
	stuck := life(50*time.Minute, 10*time.Minute)
	stuck.Problem = "connection refused"
	for name, c := range map[string]struct {
		facts health.Facts
		until time.Time // zero: not healthy
		why   []string
	}{
		"fresh":                     {health.Facts{Identity: life(0, time.Hour), LeaderSeen: now}, at(40 * time.Minute), nil},
		"a third and a moment left": {health.Facts{Identity: life(40*time.Minute-time.Second, 20*time.Minute+time.Second), LeaderSeen: now}, at(time.Second), nil},
		"a third left":              {health.Facts{Identity: life(40*time.Minute, 20*time.Minute), LeaderSeen: now}, time.Time{}, []string{"not renewed on schedule", "20 minutes of 60 minutes", "agent"}},
		"files with nine days of thirty": {
			health.Facts{Identity: files, LeaderSeen: now}, time.Time{}, []string{"9 days of 30 days", "put a new certificate in place"},
		},
		"overdue, and the source says why": {health.Facts{Identity: stuck, LeaderSeen: now}, time.Time{}, []string{"10 minutes", "Workload API at /run/agent.sock: connection refused"}},
		"expires this moment":              {health.Facts{Identity: life(time.Hour, 0), LeaderSeen: now}, time.Time{}, []string{"expired 0 seconds ago"}},
		"expired":                          {health.Facts{Identity: life(4*time.Hour, -3*time.Hour), LeaderSeen: now}, time.Time{}, []string{"expired 3 hours ago, at 2026-11-21T09:00:00Z"}},
		"not valid yet":                    {health.Facts{Identity: life(-5*time.Minute, time.Hour), LeaderSeen: now}, time.Time{}, []string{"not valid for another 5 minutes", "clock"}},
		"no identity":                      {health.Facts{LeaderSeen: now}, time.Time{}, []string{"no identity yet", "agent"}},
		"no identity, and from whom":       {health.Facts{Awaits: "/run/agent.sock"}, time.Time{}, []string{"waits for one from /run/agent.sock"}},
		"no certificate but an ID":         {health.Facts{Identity: identity.Status{Origin: "files x"}, LeaderSeen: now}, time.Time{}, []string{"no identity yet"}},
		"never seen":                       {health.Facts{Identity: life(0, time.Hour)}, time.Time{}, []string{"no raft leader has heard of it yet", "majority"}},
		"seen a minute ago":                {health.Facts{Identity: life(0, time.Hour), LeaderSeen: at(-time.Minute)}, at(40 * time.Minute), nil},
		"seen longer ago":                  {health.Facts{Identity: life(0, time.Hour), LeaderSeen: at(-time.Minute - 1)}, time.Time{}, []string{"for 60 seconds"}},
		"seen ahead of our clock":          {health.Facts{Identity: life(0, time.Hour), LeaderSeen: at(time.Second)}, at(40 * time.Minute), nil},
		"ledger": {
			health.Facts{Identity: life(0, time.Hour), LeaderSeen: now, Ledger: errors.New("3 of 5 records are here")},
			time.Time{},
			[]string{"made no voter: 3 of 5 records are here", "another SN"},
		},
		"ledger and no leader": {
			health.Facts{Identity: life(0, time.Hour), Ledger: errors.New("3 of 5 records are here")}, time.Time{}, []string{"majority"},
		},
		"stale and unseen": {health.Facts{Identity: life(4*time.Hour, -time.Hour)}, time.Time{}, []string{"expired"}},
	} {
		v := health.Judge(c.facts, now)
		if v.Healthy == c.until.IsZero() || !v.Until.Equal(c.until) || v.Healthy == (v.Reason != "") {
			t.Errorf("%s: got %+v, want until %v", name, v, c.until)
		}
		for _, text := range c.why {
			if !strings.Contains(v.Text(), text) || !strings.Contains(v.Why(), text) {
				t.Errorf("%s: %q and %q do not say %q", name, v.Text(), v.Why(), text)
			}
		}
		if v.Healthy && (v.Why() != "" || !strings.HasPrefix(v.Text(), "healthy until 2026-11-21T12:")) {
			t.Errorf("%s: %q, %q", name, v.Text(), v.Why())
		}
	}
}

func TestWarnings(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		id   identity.Status
		want string
	}{
		"fresh":            {identity.Status{NotBefore: now, NotAfter: now.Add(time.Hour)}, ""},
		"overdue":          {identity.Status{NotBefore: now.Add(-50 * time.Minute), NotAfter: now.Add(10*time.Minute + time.Second)}, "the certificate expires in 10 minutes"},
		"expired":          {identity.Status{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(-time.Second)}, ""},
		"the source's own": {identity.Status{NotBefore: now.Add(-50 * time.Minute), NotAfter: now.Add(10 * time.Minute), Warnings: []string{"soon"}}, "soon"},
		"none":             {identity.Status{}, ""},
		"stuck":            {identity.Status{NotBefore: now, NotAfter: now.Add(time.Hour), Origin: "files a.pem", Problem: "no such file"}, "nothing new comes from files a.pem: no such file"},
	} {
		if got := strings.Join(health.Warnings(health.Facts{Identity: c.id}, now), "|"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 seconds", 90 * time.Second: "90 seconds", 2 * time.Minute: "2 minutes", 90 * time.Minute: "90 minutes",
		2 * time.Hour: "2 hours", 47 * time.Hour: "47 hours", 48 * time.Hour: "2 days", 400 * 24 * time.Hour: "400 days",
	} {
		if got := health.Words(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
