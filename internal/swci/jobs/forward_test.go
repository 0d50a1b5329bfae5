package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/forward"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

func TestMemberNamed(t *testing.T) {
	a := &swarmv1.Assignment{Task: "grid.0123456789ab", TaskType: "RUN_JOB", Phase: "running", Members: []*swarmv1.AssignmentMember{
		{Node: "h-1", Group: "scheduler"}, {Node: "h-2", Group: "worker", Index: 1},
	}}
	for name, want := range map[string]string{
		"0:8787": "h-1 8787", "1:80": "h-2 80", "scheduler/0:8787": "h-1 8787", "h-2/worker/1:65535": "h-2 65535",
		"2:80": "no member 2: name one", "worker/0:80": "of rank 0 is h-1/scheduler/0", "h-1/worker/1:80": "of rank 1 is h-2/worker/1", "x/h-2/worker/1:80": "of rank 1 is",
		"worker:80": "no member worker", "0": "names no port", "0:0": "names no port", "0:65536": "names no port", "0:http": "names no port", "": "names no port", ":80": "no member ",
	} {
		m, port, err := jobs.MemberNamed(a, name)
		got := fmt.Sprintf("%s %d", m.GetNode(), port)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	a.Beside = "sl-1" // which has rank 0
	for name, want := range map[string]string{
		"1:80": "h-1 80", "h-2/worker/2:80": "h-2 80", "0:80": "rank 0 of the job is no member of it: SL sl-1 runs it itself", "rank/0:80": "SL sl-1 runs it", "worker/1:80": "of rank 1 is h-1/scheduler/1", "10:80": "no member 10: name one",
	} {
		m, port, err := jobs.MemberNamed(a, name)
		if got := fmt.Sprintf("%s %d %v", m.GetNode(), port, err); !strings.Contains(got, want) {
			t.Errorf("beside an SL, %q: %s, want %s", name, got, want)
		}
	}
	if _, _, err := jobs.MemberNamed(&swarmv1.Assignment{Phase: "waiting"}, "0:80"); err == nil || !strings.Contains(err.Error(), "no members yet: it is waiting") {
		t.Error(err)
	}
}

// TestNamed: lines are of the ranks that members have, by which hosts name them.
func TestNamed(t *testing.T) {
	for beside, want := range map[string]string{"": "rank/0 rank/1 node-2", "sl-1": "node-0 rank/1 rank/2"} {
		a := &swarmv1.Assignment{Task: "sl-1-ranks.0123abcd", TaskType: "RUN_JOB", Groups: []*swarmv1.TaskGroup{{Name: "rank", Peers: 2}}, Beside: beside}
		var got []string
		for i := range 3 {
			got = append(got, jobs.Named(a)(hostlogs.Line{From: fmt.Sprintf("node-%d", i)}).From)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("beside %q: %q, want %s", beside, got, want)
		}
	}
}

// TestForward: each connection is one to the member; what one is refused for is said once, and that the member is gone ends it all.
func TestForward(t *testing.T) {
	far, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		for {
			c, err := far.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	var said []string
	refused := make(chan error, 3)
	f := jobs.Forward{Say: func(s string) { said = append(said, s) }, Connect: func(ctx context.Context) (forward.Half, error) {
		select {
		case err := <-refused:
			return nil, err
		default:
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", far.Addr().String())
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}}
	near, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(t.Context(), near) }()
	tell := func() string {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", near.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, "hello")
		_ = c.(*net.TCPConn).CloseWrite()
		raw, _ := io.ReadAll(c)
		return string(raw)
	}
	for range 2 {
		if got := tell(); got != "hello" {
			t.Errorf("%q", got)
		}
	}
	no := errors.New("h-0: nothing listens")
	for range 2 {
		refused <- no
		if got := tell(); got != "" {
			t.Errorf("%q without a member", got)
		}
	}
	over := &forward.RefusedError{Refused: "it does not run", Over: true}
	refused <- over
	tell()
	if err := <-ended; !errors.Is(err, over) {
		t.Error(err)
	}
	if got := strings.Join(said, "; "); got != "h-0: nothing listens" {
		t.Errorf("said: %s", got)
	}
}
