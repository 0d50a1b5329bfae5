package container_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// between puts a proxy between a launcher and the machine's engine. answer may spoil what the engine has done.
func (l *lab) between(t *testing.T, answer func(r *http.Response) error) *container.Launcher {
	t.Helper()
	return container.New(enginetest.Dial(t, enginetest.Between(t, l.engine, enginetest.Faults{Answer: answer})), slog.New(slog.NewTextHandler(l.log, nil)))
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
