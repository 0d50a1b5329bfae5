package swop_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/forward"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

// reports are what a host says of its members.
type reports struct {
	mu   sync.Mutex
	all  []task.MemberReport
	news chan struct{}
}

func (r *reports) Report() []task.MemberReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func (r *reports) News() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news
}

func (r *reports) say(s task.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news != nil {
		close(r.news)
	}
	r.all, r.news = []task.MemberReport{{Assignment: "7", Epoch: 2, Report: task.Report{Member: 1, State: s}}}, make(chan struct{})
}

// reachable is an executor that connects to members.
type reachable struct {
	work.Executor

	at string
}

func (r reachable) Connect(ctx context.Context, _ work.Label, _ uint16) (*net.TCPConn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", r.at)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// TestMembersThatRun: connections lead to members that this host says run and that the swarm has not ended, of their very epoch, and end with them.
func TestMembersThatRun(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hosted := func(stop bool) []task.Hosted {
		return []task.Hosted{{Request: task.Request{ID: "7"}, Epoch: 2, Members: []task.HostedMember{{Index: 1, Stop: stop}}}}
	}
	view, host := swop.NewView(), &reports{}
	f := swop.Forwards{
		Node: "h-0", SwarmID: func() string { return "s" }, View: view, Host: host, Types: map[string]work.Type{task.RunJob: {Executor: reachable{at: l.Addr().String()}}},
	}
	to := forward.Target{Assignment: "7", Epoch: 2, Member: 1, Port: 80}
	for _, tt := range []struct {
		name  string
		state task.State
		stop  bool
		other forward.Target
		runs  bool
	}{
		{"ready", task.Ready, false, to, true},
		{"started", task.Started, false, to, true},
		{"prepared", task.Prepared, false, to, false},
		{"exited", task.Exited, false, to, false},
		{"stopped by the swarm", task.Ready, true, to, false},
		{"of the epoch before", task.Ready, false, forward.Target{Assignment: "7", Epoch: 1, Member: 1, Port: 80}, false},
		{"another host's", task.Ready, false, forward.Target{Assignment: "7", Epoch: 2, Port: 80}, false},
		{"of another assignment", task.Ready, false, forward.Target{Assignment: "8", Epoch: 2, Member: 1, Port: 80}, false},
	} {
		host.say(tt.state)
		view.Take(hosted(tt.stop))
		ctx, cancel := context.WithCancel(t.Context())
		c, err := f.Dial(ctx, tt.other)
		cancel()
		if (err == nil) != tt.runs || err != nil && !errors.Is(err, forward.ErrGone) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if c != nil {
			_ = c.Close()
		}
	}
	for name, end := range map[string]func(){
		"its host sees it end": func() { host.say(task.Exited) },
		"the swarm ends it":    func() { view.Take(hosted(true)) },
	} {
		host.say(task.Ready)
		view.Take(hosted(false))
		c, err := f.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		end()
		if _, err := io.Copy(io.Discard, c); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the connection ends with %v", name, err)
		}
	}
	f.Types = nil
	host.say(task.Ready)
	view.Take(hosted(false))
	if _, err := f.Dial(t.Context(), to); err == nil || !strings.Contains(err.Error(), "h-0 carries out no jobs") {
		t.Error(err)
	}
}
