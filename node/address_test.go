package node

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

func TestCheckHost(t *testing.T) {
	for _, good := range []string{"sn1", "sn-1.example.org", "my_sn", "SN1.", "10.0.0.1", "::1", "2001:db8::1", "1and1", "10", strings.Repeat("a", 63) + ".b"} {
		if err := CheckHost("sn-ip", good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", " ", "sn 1", "sn1:30304", "http://sn1", "[::1]", "10.0.0.300", "10.0.0", "-sn1", "sn1-", "a..b", ".", "sn1/x", "s\n", "::1%",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a",
	} {
		if err := CheckHost("sn-ip", bad); err == nil || !strings.HasPrefix(err.Error(), "--sn-ip ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestJoinAddress(t *testing.T) {
	for given, want := range map[string]string{
		"sn1": "sn1:30305", "sn1:7": "sn1:7", "::1": "[::1]:30305", "[::1]": "[::1]:30305", "[::1]:7": "[::1]:7", "10.0.0.1": "10.0.0.1:30305",
		"": "", "sn1:": "", "sn1:x": "", "sn1:0": "", "sn1:70000": "", "s n": "", "10.0.0.300:7": "", "http://sn1": "",
	} {
		got, err := JoinAddress(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
}

// TestSentinelOfLater has a Sentinel whose name resolves after a while, as that of a container which is started later.
func TestSentinelOfLater(t *testing.T) {
	own := []net.IP{net.IPv4(10, 0, 0, 2)}
	later := func(after int, ip net.IP) (lookup, *int) {
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
		cfg      SNConfig
		hasState bool
		after    int
		ip       net.IP
		want     bool
		asked    int
	}{
		"the same name":                      {SNConfig{Common: Common{Host: "SN1"}, SentinelHost: "sn1"}, false, never, nil, true, 0},
		"at once":                            {SNConfig{SentinelHost: "sn1"}, false, 0, net.IPv4(10, 0, 0, 1), false, 1},
		"at once, this node by another name": {SNConfig{SentinelHost: "sn1"}, false, 0, own[0], true, 1},
		"later":                              {SNConfig{SentinelHost: "sn1"}, false, 40, net.IPv4(10, 0, 0, 1), false, 41},
		"never, and it knows its swarm":      {SNConfig{SentinelHost: "sn1"}, true, never, nil, false, 1},
		"never, and it knows whom to ask":    {SNConfig{SentinelHost: "sn1", Join: []string{"sn2"}}, false, never, nil, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				tt.cfg.Log, tt.cfg.SentinelFSPort = slog.New(slog.NewTextHandler(&log, nil)), 30305
				resolve, asked := later(tt.after, tt.ip)
				s := &sn{cfg: tt.cfg, ips: own}
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
		s := &sn{cfg: SNConfig{Common: Common{Log: slog.New(slog.DiscardHandler)}, SentinelHost: "sn1"}, ips: own}
		if _, err := s.isSentinel(ctx, false, resolve); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped while it waits: %v", err)
		}
	})
}
