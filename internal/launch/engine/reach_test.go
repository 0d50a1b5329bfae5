package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// answers is an engine that answers pings, and all else with fn; it returns its address.
func answers(t *testing.T, fn http.HandlerFunc) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_ping" {
			w.Header().Set("Api-Version", "1.43")
			return
		}
		fn(w, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return "unix://" + at
}

// TestOutOfReach: which of an engine's errors pass.
func TestOutOfReach(t *testing.T) {
	for name, tt := range map[string]struct {
		fn   http.HandlerFunc
		want bool
	}{
		"it goes away before it answers": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"it goes away while it answers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `[{"Id": `)
			panic(http.ErrAbortHandler)
		}, true},
		"what is below it is away": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"connection error"}`, http.StatusServiceUnavailable)
		}, true},
		"it has no such thing": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"message":"none"}`, http.StatusNotFound) }, false},
		"it can't": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"no"}`, http.StatusInternalServerError)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := engine.OpenAt(t.Context(), answers(t, tt.fn))
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			_, err = e.ContainerList(t.Context(), container.ListOptions{})
			if got := engine.OutOfReach(engine.Explain(fmt.Errorf("look: %w", err))); err == nil || got != tt.want {
				t.Errorf("%v passes: %t", err, got)
			}
		})
	}
	_, err := engine.OpenAt(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none"))
	if !engine.OutOfReach(err) {
		t.Errorf("no socket: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := engine.OpenAt(ended, "unix:///none"); engine.OutOfReach(err) {
		t.Errorf("its caller has gone: %v", err)
	}
	denied := &net.OpError{Op: "dial", Net: "unix", Err: &fs.PathError{Op: "connect", Err: syscall.EACCES}}
	if engine.OutOfReach(fmt.Errorf("reach: %w", denied)) || engine.OutOfReach(nil) || engine.OutOfReach(errors.New("no such image")) {
		t.Error("what is definite passes")
	}
}

// TestEngineThatTakesConnectionsAndIsSilent is one that passes, and keeps nobody waiting for ever.
func TestEngineThatTakesConnectionsAndIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := engine.OpenOver(t.Context(), func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		})
		if !engine.OutOfReach(err) || time.Since(began) != 15*time.Second || !strings.Contains(err.Error(), "no answer within 15s") {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
