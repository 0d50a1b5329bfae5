package enginetest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Faults are what goes wrong between a test and an engine. After an error there is no answer.
type Faults struct {
	Ask    func(r *http.Request) error  // before the engine is asked; nil: nothing
	Answer func(r *http.Response) error // which may spoil what the engine has done
}

// asking is a transport that may not reach the engine.
type asking struct {
	http.RoundTripper

	ask func(r *http.Request) error
}

// RoundTrip implements http.RoundTripper.
func (a asking) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.ask != nil {
		if err := a.ask(r); err != nil {
			return nil, err
		}
	}
	return a.RoundTripper.RoundTrip(r)
}

// Between puts a proxy between a test and an engine, and returns its address.
func Between(t testing.TB, e *engine.Engine, faults Faults) string {
	t.Helper()
	at := strings.TrimPrefix(e.DaemonHost(), "unix://")
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	}}
	server := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport:      asking{transport, faults.Ask},
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0),
		ModifyResponse: faults.Answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
		transport.CloseIdleConnections()
	})
	return "unix://" + socket
}

// Step is by how many calls a test goes on that loses the engine at one call after the other: at each with SWARM_TEST_LONG, which takes a minute.
func Step() int {
	if os.Getenv("SWARM_TEST_LONG") != "" {
		return 1
	}
	return 6
}
