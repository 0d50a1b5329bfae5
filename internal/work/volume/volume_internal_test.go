package volume

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// TestWhatIsMadeForAnEndedTaskIsKnown holds that a task which ends while an engine makes the container that opens a volume knows of that
// container, which it has to remove: the engine makes it in any case.
func TestWhatIsMadeForAnEndedTaskIsKnown(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	var removed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			_, _ = io.WriteString(w, `{"status":"sha256:`+strings.Repeat("a", 64)+`"}`)
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			end()
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"Id":"made"}`)
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/containers/made"):
			removed.Store(true)
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = io.WriteString(w, "[]")
		}
	}))
	defer server.Close()
	e, err := engine.OpenAt(t.Context(), "tcp://"+server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	v, err := Open(ctx, e, "work", false, map[string]string{engine.LabelRole: engine.RoleContent})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(ctx); err != nil || !removed.Load() {
		t.Errorf("%v; the container was removed: %v", err, removed.Load())
	}
}
