package client_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// TestConnectionEndsWithTheSNsSVID has an SN's SVID end while a connection with it is open and our own SVID lives on.
func TestConnectionEndsWithTheSNsSVID(t *testing.T) {
	s := newSwarm(t, swarmID)
	source := must(s.authority.Issue("/swarm/sn", 2*time.Second))(t)
	domains := must(s.authority.Domains())(t)
	srv := must(rpc.New(rpc.Config{
		Name: "sn-0", Core: s.core, Lead: &rpctest.Lead{}, Caller: rpc.TLSCaller(nil), Log: slog.New(slog.DiscardHandler),
	}))(t)
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, ln, rpc.TLSConfig(source, domains)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c := must(client.New(client.Config{
		SNs: []string{ln.Addr().String()}, Source: s.source("/swarm/swci"), Domains: domains, Log: slog.New(slog.DiscardHandler),
	}))(t)
	defer func() { _ = c.Close() }()
	if _, err := c.ListNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := must(source.GetX509SVID())(t).Certificates[0].NotAfter
	<-time.After(time.Until(end) + 100*time.Millisecond)
	short, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if _, err := c.ListNodes(short); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an SN whose SVID has ended: %v", err)
	}
	if err := source.Rotate(time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListNodes(t.Context()); err != nil {
		t.Errorf("after it was renewed: %v", err)
	}
}
