package runjob

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/work"
)

// TestPages holds which answers of a page mean that what it counts is there.
func TestPages(t *testing.T) {
	for _, tt := range []struct {
		code   int
		answer string
		count  string
		want   bool
	}{
		{200, `{"workers": 2}`, "workers", true},
		{200, `{"workers": 3, "x": {}}`, "workers", true},
		{200, "<html>", "", true},
		{200, `{"workers": 1}`, "workers", false},
		{200, `{"workers": "2"}`, "workers", false},
		{200, `{}`, "workers", false},
		{200, "[]", "workers", false},
		{200, "<html>", "workers", false},
		{500, `{"workers": 2}`, "workers", false},
		{302, `{"workers": 2}`, "", false},
		{200, `{"workers": 2, "x": "` + strings.Repeat("x", maxPage) + `"}`, "workers", false},
	} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tt.code)
			_, _ = w.Write([]byte(tt.answer))
		}))
		q := question{Page: strings.TrimPrefix(page.URL, "http://") + "/json", Count: tt.count, AtLeast: 2}
		if ready, _ := q.ask(t.Context(), nil); ready != tt.want {
			t.Errorf("%d %.40q: %v", tt.code, tt.answer, ready)
		}
		page.Close()
		if ready, _ := q.ask(t.Context(), nil); ready {
			t.Errorf("nobody answers, and it is ready")
		}
	}
}

// asked keeps where pages were asked for, and answers none.
type asked []string

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	*a = append(*a, r.URL.Host)
	return nil, errors.New("nobody is there")
}

// TestNobodyElseIsAsked: an address in a network that this host is not in may be another machine's in one that it is in, also with the same subnet.
func TestNobodyElseIsAsked(t *testing.T) {
	before := pages
	defer func() { pages = before }()
	var who asked
	pages = &http.Client{Transport: &who}
	for at, bridge := range map[string][]string{
		"203.0.113.9:8787": {"203.0.113.1"}, // the engine is on another machine
		"127.0.0.1:8786":   nil,             // a subnet of this host's too
		"127.0.0.1:8788":   {"127.0.0.9"},
		"127.0.0.1:8787":   {"127.0.0.1"},
	} {
		if ready, _ := (question{Page: at + "/json", Apart: true, Network: "lab", Bridge: bridge}).ask(t.Context(), nil); ready {
			t.Error(at, "answers")
		}
	}
	if len(who) != 1 || who[0] != "127.0.0.1:8787" {
		t.Errorf("asked %q", who)
	}
	listens, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listens.Close()
	at := netip.MustParseAddrPort(listens.Addr().String())
	if _, err := (question{Apart: true, Network: "lab"}).connect(t.Context(), at); err == nil || !strings.Contains(err.Error(), "not in network lab") {
		t.Error(err)
	}
	c, err := (question{Apart: true, Network: "lab", Bridge: []string{"127.0.0.1"}}).connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// TestWhoCanNotBeAsked holds that it is reported of a member in a network that this host is not in, and of no other.
func TestWhoCanNotBeAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody answers
	for _, tt := range []struct {
		q    question
		want string
	}{
		{question{Listens: "203.0.113.9:9000", Apart: true}, "can't ask 203.0.113.9:9000, "},
		{question{Page: "203.0.113.9:8787/json", Apart: true}, "can't ask 203.0.113.9:8787, "},
		{question{Listens: "203.0.113.9:9000"}, ""},
		{question{Listens: "127.0.0.1:9000", Apart: true}, ""},
		{question{Page: "127.0.0.1:8787/json", Apart: true}, ""},
	} {
		if ready, why := tt.q.ask(ctx, nil); ready || !strings.Contains(why, tt.want) || (why == "") != (tt.want == "") {
			t.Errorf("%+v: %v, %q", tt.q, ready, why)
		}
	}
}

// TestWhoIsAskedInVain: from the second time on a question that a member has not answered is reported, until it answers.
func TestWhoIsAskedInVain(t *testing.T) {
	var answers error
	run := func(context.Context, []string) error { return answers }
	for _, tt := range []struct {
		q    question
		want string
	}{
		{question{Command: []string{"x"}}, "its ready.command has not ended with 0 yet"},
		{question{Listens: "127.0.0.1:1"}, "nothing answers on 127.0.0.1:1 yet: have the program listen there"},
		{question{Page: "127.0.0.1:1/json", Count: "workers", AtLeast: 2}, "http://127.0.0.1:1/json does not say yet that workers is 2"},
		{question{Page: "127.0.0.1:1/"}, "there is no page http://127.0.0.1:1/ yet"},
	} {
		var p prober
		tt.q.Timeout = time.Minute
		answers = errors.New("exit code 1")
		if ready, why := p.ready(t.Context(), work.Label{}, tt.q, run); ready || why != "" {
			t.Errorf("%+v: %v, %q the first time", tt.q, ready, why)
		}
		if ready, why := p.ready(t.Context(), work.Label{}, tt.q, run); ready || !strings.HasPrefix(why, tt.want) {
			t.Errorf("%+v: %v, %q, want %q", tt.q, ready, why, tt.want)
		}
		answers = nil
		if ready, why := p.ready(t.Context(), work.Label{}, tt.q, run); len(tt.q.Command) > 0 && (!ready || why != "") {
			t.Errorf("%+v: %v, %q when it answers", tt.q, ready, why)
		}
	}
}
