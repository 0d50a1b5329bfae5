package rpc_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/nonce"
	"github.com/swarmd/swarmd/internal/rpc"
)

// halfRequest sends the head of a request and a bit of its body over HTTP/1.1, and returns the status of the answer.
func halfRequest(t *testing.T, s *swarm, path, procedure string) int {
	t.Helper()
	cfg := identity.ClientTLS(s.source(path), s.domains(), identity.RoleSN)
	cfg.NextProtos = []string{"http/1.1"}
	c, err := tls.Dial("tcp", s.addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nSwarm-Id: %s\r\nContent-Length: 1000000\r\n\r\n{", procedure, swarmID)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer to a request that never ends: %v", err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestRequestThatNeverEndsIsCut(t *testing.T) {
	s := newSwarm(t)
	if got := halfRequest(t, s, "/swarm/sl/sl-0", swarmv1connect.NodeServiceListNodesProcedure); got < 400 {
		t.Errorf("status %d", got)
	}
}

func TestNothingIsReadFromWhoMayNotCall(t *testing.T) {
	s := newSwarmWithLongTimeouts(t)
	for _, tt := range []struct {
		name, path, procedure string
		want                  int
	}{
		{"the wrong role", "/swarm/swci", swarmv1connect.SessionServiceOpenSessionProcedure, http.StatusForbidden},
		{"no token", "/swarm/sl/sl-0", swarmv1connect.SessionServiceOpenSessionProcedure, http.StatusUnauthorized},
	} {
		// The body never comes: an answer within halfRequest's timeout, half of the server's, did not wait for it.
		if got := halfRequest(t, s, tt.path, tt.procedure); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
	}
	_, err := s.as("/swarm/swci").sessions().OpenSession(t.Context(), with(s.as("/swarm/swci"), &swarmv1.OpenSessionRequest{}))
	wantReason(t, "over HTTP/2", err, "ROLE_DENIED")
	p := s.as("/swarm/sl/sl-0")
	p.header.Set(rpc.HeaderSwarmID, "another")
	took, wait := p.hold(t.Context(), t, swarmv1connect.NodeServiceListNodesProcedure, 1, rpc.MaxMessage)
	wait()
	if took.Load() > 512<<10 {
		t.Errorf("%d bytes were taken from a caller of another swarm", took.Load())
	}
}

func TestSilentConnectionsKeepNobodyAway(t *testing.T) {
	s := newSwarm(t)
	for range identity.MaxUnproven + 40 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	p := s.as("/swarm/sl/sl-0")
	p.http.Timeout = 8 * time.Second // less than what the silent ones have for their handshakes
	res, err := p.http.Get(p.url() + "/is_up")
	if err != nil {
		t.Fatalf("an honest caller was kept out: %v", err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

func TestPeersOfOneSPIFFEIDDoNotPushOutEachOthersChallenges(t *testing.T) {
	s := newSwarm(t)
	honest, hostile := s.as("/swarm/sl"), s.as("/swarm/sl")
	req := honest.registration(t, "sl-0", identity.RoleSL, nodeKey(t))
	for range nonce.PerCaller + 1 {
		if _, err := hostile.nodes().Challenge(t.Context(), with(hostile, &swarmv1.ChallengeRequest{})); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := honest.nodes().Register(t.Context(), with(honest, req)); err != nil {
		t.Errorf("registration after a flood of challenges: %v (%v)", err, connect.CodeOf(err))
	}
}

func TestSpoken(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"program: exit code 1", "program: exit code 1"},
		{"a\x1b[2Jb\nc\u009bd\u202ee", "a [2Jb c d e"},
		{"übung 日本", "übung 日本"},
		{"0123456789abcdefghijk", "0123456789abcdefghij"},
	} {
		if got := rpc.Spoken(tt.in, 20); got != tt.want {
			t.Errorf("Spoken(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
