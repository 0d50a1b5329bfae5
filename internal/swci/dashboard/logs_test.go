package dashboard_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// eventually waits until a number of logs is read.
func (s *swarm) eventually(t *testing.T, want int) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		reads := 0
		s.set(func() { reads = s.reads })
		if reads == want {
			return
		}
		select {
		case <-s.moved:
		case <-late:
			t.Fatalf("%d logs are read, want %d", reads, want)
		}
	}
}

// TestLogsFollow: lines come as they are printed, those at once in one event, until the log ends; a host that refuses has its words.
func TestLogsFollow(t *testing.T) {
	s := &swarm{lines: make(chan string, 1000), moved: make(chan struct{}, 100)}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	events := follow(t, c, base+"/api/logs/grid?host=h-1&member=worker/2")
	s.lines <- "loss 1"
	if got := until(t, events, "lines"); got != `lines [{"host":"gridh-1","from":"worker/2","text":"loss 1"}]` {
		t.Error(got)
	}
	for range 900 {
		s.lines <- "more"
	}
	close(s.lines)
	lines, sent := 0, 0
	for e := range events {
		if strings.HasPrefix(e, "end ") {
			if e != `end {"said":"nothing else will be printed there"}` {
				t.Error(e)
			}
			break
		}
		lines += strings.Count(e, "more")
		if sent++; strings.Count(e, "more") > 200 {
			t.Errorf("%d lines in one event", strings.Count(e, "more"))
		}
	}
	if lines != 900 {
		t.Errorf("%d lines of 900 came in %d events", lines, sent)
	}
	events = follow(t, c, base+"/api/logs/closed")
	until(t, events, "lines", "last")
	if got := until(t, events, "end"); got != `end {"error":"closed hands out no log","remedy":"ask its owner"}` {
		t.Error(got)
	}
}

// TestLogsAreBounded: few are followed at a time; one whose page goes is read no more, and makes room; all end with the dashboard, and say so.
func TestLogsAreBounded(t *testing.T) {
	s := &swarm{lines: make(chan string), moved: make(chan struct{}, 100)}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	for _, bad := range []string{"a%0Ab", strings.Repeat("n", 400), "n?host=%1b", "n?member=%0d"} {
		if status, body, _ := get(t, c, base+"/api/logs/"+bad); status != 400 || !strings.Contains(body, "nothing is called") {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	for range 3 {
		follow(t, c, base+"/api/logs/n")
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/logs/n", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	s.eventually(t, 4)
	if status, body, _ := get(t, c, base+"/api/logs/n"); status != 503 || !strings.Contains(body, "4 logs are followed already") || !strings.Contains(body, "stop following one") {
		t.Errorf("one log too many: %d %s", status, body)
	}
	leave()
	s.eventually(t, 3)
	events := follow(t, c, base+"/api/logs/n")
	s.eventually(t, 4)
	s.stop()
	until(t, events, "end", "the run has ended", "see the report")
	s.eventually(t, 0)
}
