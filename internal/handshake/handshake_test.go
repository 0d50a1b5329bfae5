package handshake_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/handshake"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// TestAnswersAreBounded: what an API answers is taken as far as it is shown, and a header that is none is not.
func TestAnswersAreBounded(t *testing.T) {
	authority, err := rpctest.NewAuthority("a.example")
	if err != nil {
		t.Fatal(err)
	}
	domains, err := authority.Domains()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(path string) *rpctest.Source {
		s, err := authority.Issue(path, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sn, sl := issue("/swarm/sn/sn-1"), issue("/swarm/sl/sl-1")
	id, err := identity.ParseIDString("spiffe://a.example/swarm/sl/sl-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		answer http.HandlerFunc
		ok     bool
		says   string
	}{
		"well": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK") }, true, "healthy"},
		"a header of a megabyte": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Swarm-Id", strings.Repeat("x", 1<<20))
			_, _ = io.WriteString(w, "OK")
		}, false, "it refuses our certificate"},
		"a body of a megabyte, and control characters": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("\x1b[2J\n", 1<<18))
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: x.answer, TLSConfig: identity.MutualTLS(sn, nil), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
			served := make(chan error, 1)
			go func() { served <- server.ServeTLS(ln, "", "") }()
			defer func() {
				_ = server.Close()
				<-served
			}()
			now := time.Now()
			own := identity.Status{ID: id, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)}
			res := handshake.New(handshake.Config{Source: sl, Domains: domains}).Run(t.Context(), ln.Addr().String(), own)
			last := res.Steps[len(res.Steps)-1]
			if last.OK != x.ok || !strings.Contains(last.Detail, x.says) || len(last.Detail) > 1100 || strings.ContainsAny(last.Detail, "\x1b\n") {
				t.Errorf("%t %q", last.OK, last.Detail)
			}
		})
	}
}
