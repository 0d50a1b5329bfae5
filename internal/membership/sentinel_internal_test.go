package membership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServersOfOneThatJoins holds that no server is asked that nobody has named.
func TestServersOfOneThatJoins(t *testing.T) {
	s := &Member{cfg: Config{Options: Options{Join: []string{"sn2", "sn3:1"}, SentinelFSPort: 30305}}}
	if got := strings.Join(s.servers(), " "); got != "sn2:30305 sn3:1" {
		t.Errorf("it asks %s", got)
	}
}

// TestFoundingIsSaid warns who may only have copied the Sentinel's line, once, and nobody else.
func TestFoundingIsSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		options Options
		want    string
	}{
		"by addresses":    {Options{FoundAfter: time.Second}, "level=WARN"},
		"in words":        {Options{FoundAfter: time.Second, Meant: true}, "level=INFO"},
		"on one machine":  {Options{}, "level=INFO"},
		"operators admit": {Options{FoundAfter: time.Second, Admit: true}, "operators_admit=true"},
	} {
		var log bytes.Buffer
		s := &Member{cfg: Config{Options: tt.options, StateDir: "/state", Log: slog.New(slog.NewTextHandler(&log, nil))}}
		s.sayFounding("abc")
		said := log.String()
		if strings.Count(said, "\n") != 1 || !strings.Contains(said, tt.want) || !strings.Contains(said, "founding a swarm") || !strings.Contains(said, "swarm_id=abc") {
			t.Errorf("%s: %s", name, said)
		}
		if warned := strings.Contains(said, "this SN founds a NEW swarm") && strings.Contains(said, "--join HOST"); warned != strings.Contains(said, "level=WARN") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestSentinelOfLater has a Sentinel whose name resolves after a while, as that of a container which is started later.
func TestSentinelOfLater(t *testing.T) {
	own := []net.IP{net.IPv4(10, 0, 0, 2)}
	later := func(after int, ip net.IP) (func(context.Context, string, string) ([]net.IP, error), *int) {
		asked := 0
		return func(context.Context, string, string) ([]net.IP, error) {
			if asked++; asked <= after {
				return nil, errors.New("--sentinel-ip sn1 does not resolve")
			}
			return []net.IP{ip}, nil
		}, &asked
	}
	const never = 1 << 30
	for name, tt := range map[string]struct {
		cfg      Config
		hasState bool
		after    int
		ip       net.IP
		want     bool
		asked    int
	}{
		"the same name":                      {Config{Host: "SN1", Options: Options{SentinelHost: "sn1"}}, false, never, nil, true, 0},
		"at once":                            {Config{Options: Options{SentinelHost: "sn1"}}, false, 0, net.IPv4(10, 0, 0, 1), false, 1},
		"at once, this node by another name": {Config{Options: Options{SentinelHost: "sn1"}}, false, 0, own[0], true, 1},
		"behind one proxy":                   {Config{Host: "p2p.sn2", Options: Options{SentinelHost: "sn1", Proxied: true}}, false, 0, own[0], false, 0},
		"later":                              {Config{Options: Options{SentinelHost: "sn1"}}, false, 40, net.IPv4(10, 0, 0, 1), false, 41},
		"never, and it knows its swarm":      {Config{Options: Options{SentinelHost: "sn1"}}, true, never, nil, false, 1},
		"no Sentinel is named":               {Config{Options: Options{Join: []string{"sn2"}}}, false, never, nil, false, 0},
		"never, and it knows whom to ask":    {Config{Options: Options{SentinelHost: "sn1", Join: []string{"sn2"}}}, false, never, nil, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				tt.cfg.IPs, tt.cfg.Log, tt.cfg.SentinelFSPort = own, slog.New(slog.NewTextHandler(&log, nil)), 30305
				resolve, asked := later(tt.after, tt.ip)
				s := &Member{cfg: tt.cfg}
				if got, err := s.isSentinel(t.Context(), tt.hasState, resolve); got != tt.want || err != nil || *asked != tt.asked {
					t.Errorf("got %v, %v after %d lookups; want %v after %d", got, err, *asked, tt.want, tt.asked)
				}
				if said, want := strings.Count(log.String(), "cannot reach an SN yet; trying again"), tt.asked/31+min(1, tt.asked/2); said != want {
					t.Errorf("said %d times that it waits, want %d:\n%s", said, want, log.String())
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resolve, _ := later(never, nil)
		s := &Member{cfg: Config{Log: slog.New(slog.DiscardHandler), IPs: own, Options: Options{SentinelHost: "sn1"}}}
		if _, err := s.isSentinel(ctx, false, resolve); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped while it waits: %v", err)
		}
	})
}
