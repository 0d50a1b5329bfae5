package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
)

// pinnedTo is a client of the swarm swarmID that begins with these SNs.
func (s *swarm) pinnedTo(path string, change func(*client.Config), sns ...string) *client.Client {
	s.t.Helper()
	cfg := client.Config{
		SNs: sns, SwarmID: swarmID, Source: s.source(path), Domains: must(s.authority.Domains())(s.t), Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	c := must(client.New(cfg))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// stranger is an SN of another swarm under the same authority: a Sentinel that lost its disk and founded anew.
func (s *swarm) stranger() *sn {
	other := newSwarm(s.t, "0ther")
	other.authority = s.authority
	return other.start("sn-0")
}

// TestAnSNOfAnotherSwarmIsLeft: while one SN of its own swarm answers, a node goes on.
func TestAnSNOfAnotherSwarmIsLeft(t *testing.T) {
	s := newSwarm(t, swarmID)
	stranger, a := s.stranger(), s.start("sn-1")
	s.core.SetLeader("sn-1")
	var strays []string
	c := s.pinnedTo("/swarm/sl", func(cfg *client.Config) {
		cfg.OnStray = func(sn, swarm string) { strays = append(strays, sn+" "+swarm) }
	}, stranger.addr, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Report(t.Context(), &swarmv1.ReportRequest{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{stranger.addr + " 0ther"}; !slices.Equal(strays, want) {
		t.Errorf("told of %q, want %q", strays, want)
	}
	if got := c.SNs()[0]; got != a.addr {
		t.Errorf("speaks to %s, want %s", got, a.addr)
	}
}

// TestNoSNOfTheSwarmIsLeft: without a StrayWait all are asked once, and each is named.
func TestNoSNOfTheSwarmIsLeft(t *testing.T) {
	s := newSwarm(t, swarmID)
	stranger, away := s.stranger(), freePort(t)
	_, err := s.pinnedTo("/swarm/swci", nil, stranger.addr, away).ListNodes(t.Context())
	want := `no SN of swarm "5eed" answers: SN ` + stranger.addr + ` belongs to swarm "0ther"; cannot reach SN ` + away + `: connection refused`
	if client.Reason(err) != client.ReasonWrongSwarm || err.Error() != want || !strings.Contains(client.Remedy(err), "forget") {
		t.Errorf("got %v, remedy %q; want %s", err, client.Remedy(err), want)
	}
}

// fates has SNs in memory: each answers for a swarm, or not at all where that is empty.
func fates(t *testing.T, waits *[]string, swarmOf func(sn string) string, sns ...string) *client.Client {
	t.Helper()
	return must(client.New(client.Config{
		SNs: sns, SwarmID: swarmID, Log: slog.New(slog.DiscardHandler), StrayWait: 10 * time.Minute, OnWait: func(msg string) { *waits = append(*waits, msg) },
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			swarm := swarmOf(r.URL.Host)
			if swarm == "" {
				return nil, io.ErrUnexpectedEOF
			}
			head := http.Header{"Content-Type": {"application/proto"}, client.HeaderSwarmID: {swarm}}
			return &http.Response{StatusCode: http.StatusOK, Header: head, Body: http.NoBody, Request: r}, nil
		}),
	}))(t)
}

// TestALateHeartbeatIsNoNews: other calls that an SN does not answer in time are.
func TestALateHeartbeatIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []string
		c := must(client.New(client.Config{
			SNs: []string{"a:1"}, SwarmID: swarmID, Log: slog.New(slog.DiscardHandler), OnWait: func(msg string) { waits = append(waits, msg) },
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}),
		}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Report(ctx, &swarmv1.ReportRequest{}); client.Reason(err) != client.ReasonUnreachable || len(waits) > 0 {
			t.Errorf("a late heartbeat: %v, and said %q", err, waits)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if _, err := c.ListContracts(ctx); err == nil || len(waits) != 1 || !strings.Contains(waits[0], "cannot reach SN a:1: timed out") {
			t.Errorf("another call: %v, and said %q", err, waits)
		}
	})
}

// TestANodeWaitsForItsOwnSwarm: two SNs are lost, and the third answers for another swarm. One that comes back within ten minutes is in time,
// whatever calls are made meanwhile.
func TestANodeWaitsForItsOwnSwarm(t *testing.T) {
	for name, back := range map[string]time.Duration{"in time": 9 * time.Minute, "never": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var waits []string
				c := fates(t, &waits, func(sn string) string {
					switch {
					case sn == "a:1":
						return "0ther"
					case sn == "b:1" && time.Since(start) >= back:
						return swarmID
					}
					return ""
				}, "a:1", "b:1", "c:1")
				short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				// What a heartbeat ends with is no refusal.
				if _, err := c.ListContracts(short); client.Reason(err) != client.ReasonUnreachable || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a short call: %v", err)
				}
				_, err := c.ListContracts(t.Context())
				took := time.Since(start)
				if back < 10*time.Minute {
					if err != nil || took < back || took > back+time.Minute {
						t.Errorf("after %s: %v", took, err)
					}
				} else if client.Reason(err) != client.ReasonWrongSwarm || took < 10*time.Minute || took > 11*time.Minute {
					t.Errorf("after %s: %v", took, err)
				}
				if want := `no SN of swarm "5eed" answers: SN a:1 belongs to swarm "0ther"; cannot reach SN b:1: `; len(waits) != 1 || !strings.HasPrefix(waits[0], want) {
					t.Errorf("said %q, want once %q", waits, want)
				}
			})
		})
	}
}

// TestStrayWaitBeginsAnew: an SN of the own swarm that answers now and then, and be it that there is no leader, is worth waiting for.
func TestStrayWaitBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var waits []string
		c := fates(t, &waits, func(sn string) string {
			if minute := int(time.Since(start) / time.Minute); sn == "b:1" && (minute%8 == 7) {
				return swarmID
			} else if sn == "a:1" {
				return "0ther"
			}
			return ""
		}, "a:1", "b:1")
		for time.Since(start) < time.Hour {
			if _, err := c.ListContracts(t.Context()); err != nil {
				t.Fatalf("after %s: %v", time.Since(start), err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestKeptSNsAreAsked: the only SN that was named is gone; those that a previous run learned are there.
func TestKeptSNsAreAsked(t *testing.T) {
	s := newSwarm(t, swarmID)
	a, b := s.start("sn-0"), s.start("sn-1")
	var kept []client.SN
	c := s.pinnedTo("/swarm/sl", func(cfg *client.Config) { cfg.OnLearn = func(_ string, sns []client.SN) { kept = sns } }, a.addr)
	reg := registration(t, "sl-0")
	if err := c.Register(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	if want := []client.SN{{Name: "sn-0", Address: a.addr}, {Name: "sn-1", Address: b.addr}}; !slices.Equal(kept, want) {
		t.Fatalf("told of %v, want %v", kept, want)
	}
	a.kill()
	c = s.pinnedTo("/swarm/sl", func(cfg *client.Config) { cfg.Kept = kept }, a.addr)
	if err := c.Register(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.SNs(), " "); got != b.addr+" "+a.addr {
		t.Errorf("knows %s", got)
	}
}

// TestChoose: which swarm is meant when the SNs that were named differ.
func TestChoose(t *testing.T) {
	s := newSwarm(t, swarmID)
	a, b, stranger, away := s.start("sn-0").addr, s.start("sn-1").addr, s.stranger().addr, freePort(t)
	for name, c := range map[string]struct {
		sns    []string
		pinned string
		differ string // "ERROR " before an error
	}{
		"one is not asked":         {[]string{stranger}, "", ""},
		"all agree":                {[]string{a, b}, swarmID, ""},
		"those that answer agree":  {[]string{away, b}, swarmID, ""},
		"nobody answers":           {[]string{away, away}, "", ""},
		"the first is a stranger":  {[]string{stranger, a, b}, swarmID, stranger + " is of swarm 0ther, " + a + " and " + b + " are of swarm 5eed; going on with swarm 5eed, of which 2 of 3 are"},
		"one against one":          {[]string{stranger, a, away}, "", "ERROR the SNs are of different swarms: " + stranger + " is of swarm 0ther, " + a + " is of swarm 5eed"},
		"one that is named thrice": {[]string{stranger, stranger, stranger, a, b}, swarmID, "of which 2 of 3 are"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := s.client("/swarm/swci", nil, c.sns...)
			differ, err := cl.Choose(t.Context())
			if err != nil {
				differ = "ERROR " + err.Error()
				if client.Reason(err) != client.ReasonSwarmsDiffer || client.Remedy(err) == "" {
					t.Errorf("reason %q, remedy %q", client.Reason(err), client.Remedy(err))
				}
			}
			if !strings.Contains(differ, c.differ) || (differ == "") != (c.differ == "") {
				t.Errorf("got %q, want %q", differ, c.differ)
			}
			if cl.PinnedSwarmID() != c.pinned {
				t.Errorf("pinned %q, want %q", cl.PinnedSwarmID(), c.pinned)
			}
			if c.pinned != "" {
				if list, err := cl.ListNodes(t.Context()); err != nil || len(list.GetNodes()) != 2 {
					t.Errorf("nodes: %v, %v", list, err)
				}
			}
		})
	}
}
