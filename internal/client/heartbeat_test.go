package client_test

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/rpc"
)

// TestHeartbeatsShareOneConnection holds that heartbeats go over one connection of HTTP/1.1, other calls over HTTP/2, and
// that after a rotation of the SVID they go over a new one.
func TestHeartbeatsShareOneConnection(t *testing.T) {
	s := newSwarm(t, swarmID)
	srv := must(rpc.New(rpc.Config{Name: "sn-0", Core: s.core, Lead: s.lead, Caller: rpc.TLSCaller(nil), Log: slog.New(slog.DiscardHandler)}))(t)
	var mu sync.Mutex
	seen := map[int]map[string]int{} // calls by protocol and connection
	count := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if seen[r.ProtoMajor] == nil {
			seen[r.ProtoMajor] = map[string]int{}
		}
		seen[r.ProtoMajor][r.RemoteAddr]++
		mu.Unlock()
		srv.Handler().ServeHTTP(w, r)
	})
	hs := &http.Server{
		Handler: count, TLSConfig: rpc.TLSConfig(s.source("/swarm/sn"), must(s.authority.Domains())(t)), ReadHeaderTimeout: time.Minute,
	}
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- hs.ServeTLS(ln, "", "") }()
	t.Cleanup(func() {
		_ = hs.Close()
		<-served
	})
	source := must(s.authority.Issue("/swarm/sl", time.Hour))(t)
	c := must(client.New(client.Config{
		SNs: []string{ln.Addr().String()}, Source: source, Domains: must(s.authority.Domains())(t), Log: slog.New(slog.DiscardHandler),
	}))(t)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	beat := func() {
		for range 5 {
			if _, err := c.Report(t.Context(), &swarmv1.ReportRequest{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	counted := func() (connections, beats int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range seen[1] {
			beats += n
		}
		return len(seen[1]), beats
	}
	beat()
	if connections, beats := counted(); connections != 1 || beats != 5 || len(seen[2]) == 0 {
		t.Errorf("%d heartbeats on %d connections, want 5 on 1; other calls on %d", beats, connections, len(seen[2]))
	}
	if err := source.Rotate(time.Hour); err != nil {
		t.Fatal(err)
	}
	beat()
	if connections, beats := counted(); connections != 2 || beats != 10 {
		t.Errorf("after a rotation %d heartbeats on %d connections, want 10 on 2", beats, connections)
	}
}
