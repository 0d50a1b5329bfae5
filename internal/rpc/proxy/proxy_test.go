package proxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/internal/rpc/proxy"
)

// leaders tries one way after the other, as consensus does.
type leaders []http.RoundTripper

func (l leaders) WithLeader(ctx context.Context, try func(context.Context, http.RoundTripper) error) error {
	for _, way := range l {
		if err := try(ctx, way); !errors.Is(err, consensus.ErrNotLeader) {
			return err
		}
	}
	return consensus.ErrNoLeader
}

type tripper func(r *http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func call(here http.HandlerFunc) *proxy.Call {
	r := httptest.NewRequest(http.MethodPost, "https://sn-0:30304/x", http.NoBody)
	r.Header.Set("Swarm-Node", "sl-0")
	r.Header.Set("Swarm-Caller", "spiffe://a/swarm/swci")
	r.Header.Set("Connection", "close, X-Own")
	r.Header.Set("X-Own", "1")
	return &proxy.Call{Request: r, Body: []byte("body"), MaxAnswer: 1 << 20, Here: here, Claims: func() (proxy.Claims, error) {
		return proxy.Claims{Caller: "spiffe://a/swarm/sl"}, nil
	}}
}

// TestTheAnswerIsTheLeaders: the first two who are asked lead no more.
func TestTheAnswerIsTheLeaders(t *testing.T) {
	here := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		proxy.NotLeader(r.Context())
	}
	gone := tripper(func(*http.Request) (*http.Response, error) { return nil, consensus.ErrNotLeader })
	there := tripper(func(r *http.Request) (*http.Response, error) {
		b, _ := io.ReadAll(r.Body)
		if string(b) != "body" || r.Header.Get("Swarm-Node") != "sl-0" || r.Header.Get("Swarm-Caller") != "spiffe://a/swarm/sl" {
			t.Errorf("the leader got %q, %v", b, r.Header)
		}
		if r.Header.Get("Connection") != "" || len(r.Header.Values("X-Own")) > 0 || len(r.Header) != 3 {
			t.Errorf("what is of one connection went on: %v", r.Header)
		}
		return &http.Response{
			StatusCode: http.StatusConflict, Header: http.Header{"X-A": {"1"}, "Swarm-Id": {"its"}}, Trailer: http.Header{"Grpc-Status": {"9"}},
			Body: io.NopCloser(strings.NewReader("no")),
		}, nil
	})
	answer, err := call(here).Do(t.Context(), leaders{nil, gone, there})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Swarm-Id", "own")
	answer.WriteTo(w)
	res := w.Result()
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusConflict || string(b) != "no" || res.Header.Get("X-A") != "1" || res.Header.Get("Swarm-Id") != "own" || res.Trailer.Get("Grpc-Status") != "9" {
		t.Errorf("got %s %q %v, trailers %v", res.Status, b, res.Header, res.Trailer)
	}
	if _, err := call(here).Do(t.Context(), leaders{nil, gone}); !errors.Is(err, consensus.ErrNoLeader) {
		t.Errorf("without a leader: %v", err)
	}
}

// TestAnAnswerWithoutAnEnd is given up.
func TestAnAnswerWithoutAnEnd(t *testing.T) {
	endless := tripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(zeros{})}, nil
	})
	if _, err := call(nil).Do(t.Context(), leaders{endless}); err == nil || !strings.Contains(err.Error(), "out of bounds") {
		t.Errorf("got %v", err)
	}
}

// TestAStatusThatIsNone is not sent on, as net/http would panic.
func TestAStatusThatIsNone(t *testing.T) {
	for _, code := range []int{-1, 0, 42, 101, 1000} {
		odd := tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}, nil
		})
		if _, err := call(nil).Do(t.Context(), leaders{odd}); err == nil || !strings.Contains(err.Error(), "out of bounds") {
			t.Errorf("%d: got %v", code, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestNobodyWaits: what a handler says whose time is over is no answer.
func TestNobodyWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := call(func(http.ResponseWriter, *http.Request) { cancel() }).Do(ctx, leaders{nil})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
