package container_test

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// between puts a proxy between a launcher and the machine's engine. answer may spoil what the engine has done.
func (l *lab) between(t *testing.T, answer func(r *http.Response) error) *container.Launcher {
	t.Helper()
	engine := strings.TrimPrefix(l.engine.DaemonHost(), "unix://")
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", engine)
	}}
	server := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport:      transport,
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0),
		ModifyResponse: answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // no answer at all
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
	return container.New(enginetest.Dial(t, "unix://"+socket), slog.New(slog.NewTextHandler(l.log, nil)))
}

func isCall(r *http.Response, what string) bool {
	return r.Request.Method == http.MethodPost && strings.HasSuffix(r.Request.URL.Path, what)
}

// TestStartLeavesNothing breaks the start of a program at each step.
func TestStartLeavesNothing(t *testing.T) {
	l := newLab(t)
	for name, answer := range map[string]func(cancel func(), r *http.Response) error{
		"canceled after create": func(cancel func(), r *http.Response) error {
			if isCall(r, "/containers/create") {
				cancel()
			}
			return nil
		},
		"create made it and was not heard": func(_ func(), r *http.Response) error {
			if isCall(r, "/containers/create") {
				return errors.New("cut")
			}
			return nil
		},
		"start did it and was not heard": func(_ func(), r *http.Response) error {
			if isCall(r, "/start") {
				return errors.New("cut")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spec := l.sh("sleep 1000")
			if p, err := l.between(t, func(r *http.Response) error { return answer(cancel, r) }).Start(ctx, spec); err == nil {
				cancel()
				p.Wait()
				t.Error("it started")
			}
			if left := enginetest.Left(t, l.engine, l.scope); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// shortBody ends within an entry.
type shortBody struct {
	io.ReadCloser
	left int
}

func (b *shortBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("cut")
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestLogBreaksOff cuts the engine's log off again and again.
func TestLogBreaksOff(t *testing.T) {
	l := newLab(t)
	got := newLines()
	spec := l.sh(counting)
	spec.Line = got.add
	var breaks atomic.Int32
	proxy := l.between(t, func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/logs") && breaks.Add(1) <= 4 {
			r.Body = &shortBody{r.Body, 3000}
		}
		return nil
	})
	p, err := proxy.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "1000")
	p.Stop(enginetest.Timeout)
	if exit := p.Wait(); exit.String() != "exit code 5" || breaks.Load() < 5 {
		t.Errorf("got %s after %d reads of the log", exit, breaks.Load())
	}
	wantUnbroken(t, got.all())
}
