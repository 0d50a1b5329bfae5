package refused

import (
	"bytes"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestRefusedLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	w := &Log{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})), now: func() time.Time { return now }}
	server := log.New(w, "", 0)
	refuse := func(why string) {
		server.Printf("http: TLS handshake error from 192.0.2.1:4711: %s", why)
	}
	refuse("trust domain is not accepted")
	refuse("trust domain is not accepted")
	refuse("EOF")
	refuse("read tcp 192.0.2.1:1->192.0.2.2:2: read: connection reset by peer")
	server.Print("http: superfluous response.WriteHeader call")
	want := `msg="API connection refused" remote=192.0.2.1:4711 error="trust domain is not accepted"`
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
		t.Errorf("got %s, want one line with %s", got, want)
	}

	out.Reset()
	now = now.Add(time.Minute)
	refuse("trust domain is not accepted")
	for i := range 100 {
		refuse(fmt.Sprintf("%d%s", i, strings.Repeat("x", 1<<20)))
	}
	if lines := strings.Count(out.String(), "\n"); lines != refusedMost || out.Len() > refusedMost*2*maxRefused {
		t.Errorf("got %d lines of %d bytes in a minute, want %d", lines, out.Len(), refusedMost)
	}
}
