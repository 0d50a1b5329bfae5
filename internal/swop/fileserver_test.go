package swop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/swop"
)

// opened is an end of a network that nobody speaks with.
type opened struct {
	p2p.Network

	closed bool
}

func (o *opened) Close() error {
	o.closed = true
	return nil
}

// TestFileServerListensWhereItCan: a port that is taken is an error where the owner has named it; else the host goes on without, and says so
// once with the remedy.
func TestFileServerListensWhereItCan(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := busy.Addr().(*net.TCPAddr).Port
	lookup := func(_ context.Context, _, host string) ([]net.IP, error) {
		if host == "unknown" {
			return nil, errors.New("no such host")
		}
		return []net.IP{net.IPv4(127, 0, 1, 1)}, nil
	}
	free := func(context.Context, string, string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	inUse := fmt.Errorf("listen for peers: %w", &net.OpError{Op: "listen", Err: syscall.EADDRINUSE})
	for name, tt := range map[string]struct {
		host         string
		at           swop.FilePort
		listen       func(ctx context.Context, network, address string) (net.Listener, error)
		fails        error // of opening
		port         uint32
		binds, wrong string
		said         string
	}{
		"none":             {host: "127.0.0.1"},
		"free":             {host: "127.0.0.1", at: swop.FilePort{Number: 30308}, listen: free, port: 30308, binds: "127.0.0.1:30308"},
		"by a name":        {host: "host-a", at: swop.FilePort{Number: 30308}, listen: free, port: 30308, binds: ":30308"},
		"by another's":     {host: "unknown", at: swop.FilePort{Number: 30308}, listen: free, port: 30308, binds: ":30308"},
		"taken":            {host: "127.0.0.1", at: swop.FilePort{Number: taken}, said: fmt.Sprintf("port %d on 127.0.0.1 is in use by", taken)},
		"taken, and named": {host: "127.0.0.1", at: swop.FilePort{Number: taken, Named: true}, wrong: "stop that process or give another port with --swop-fs-port"},
		"taken just now":   {host: "127.0.0.1", at: swop.FilePort{Number: 30308}, listen: free, fails: inUse, said: "logs go through SNs"},
		"named just now":   {host: "127.0.0.1", at: swop.FilePort{Number: 30308, Named: true}, listen: free, fails: inUse, wrong: "listen for peers"},
		"of no identity":   {host: "127.0.0.1", at: swop.FilePort{Number: 30308}, listen: free, fails: errors.New("no key"), wrong: "no key"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var binds []string
			network := &opened{}
			m := swop.Machine{Host: tt.host, Lookup: lookup, Listen: tt.listen, Open: func(cfg p2p.Config) (p2p.Network, error) {
				if binds = cfg.ListenAddrs; tt.fails != nil {
					return nil, tt.fails
				}
				return network, nil
			}}
			if m.Listen == nil {
				m.Listen = new(net.ListenConfig).Listen
			}
			f, err := swop.OpenFileServer(t.Context(), tt.at, m, p2p.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if (err != nil) != (tt.wrong != "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Fatalf("%v, want %q", err, tt.wrong)
			}
			if err != nil {
				return
			}
			if f.Port() != tt.port || tt.binds != "" && strings.Join(binds, " ") != tt.binds {
				t.Errorf("port %d at %q", f.Port(), binds)
			}
			if lines := strings.Count(log.String(), "level=WARN"); lines != min(len(tt.said), 1) || !strings.Contains(log.String(), tt.said) {
				t.Errorf("it says:\n%s", &log)
			}
			f.Cut("no key")
			if err := f.Close(); err != nil || network.closed != (tt.port != 0) {
				t.Errorf("closed: %t, %v", network.closed, err)
			}
		})
	}
}

// answers is an SN that answers each question for rights alike.
type answers struct{ err error }

func (a answers) CheckReader(ctx context.Context, _ *swarmv1.LogPart, _ string) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("a question without bounds")
	}
	return a.err
}

// TestRightsOfReaders: what an SN denies is denied, and what none can tell is not known.
func TestRightsOfReaders(t *testing.T) {
	for _, tt := range []struct {
		answer error
		denied string
		fails  bool
	}{
		{},
		{&client.Error{Reason: string(state.ReasonNoRight), Message: "ann may not read logs"}, "ann may not read logs", false},
		{&client.Error{Reason: "TOKEN_REFUSED", Message: "register"}, "", true},
		{errors.New("no SN answers"), "", true},
	} {
		if denied, err := (swop.Rights{API: answers{tt.answer}}).Deny(t.Context(), ann, &swarmv1.LogPart{}); denied != tt.denied || (err != nil) != tt.fails {
			t.Errorf("%v: %q, %v", tt.answer, denied, err)
		}
	}
}
