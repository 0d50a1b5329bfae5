package consensus_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

// replaced is a swarm whose servers lose their disks, each with the configuration that it runs with now.
type replaced struct {
	*swarm
	names []string
	sls   int
	cfgs  map[string]consensus.Config // of those that were replaced
	joins map[string]consensus.JoinRequest
}

func newReplaced(t *testing.T, timing consensus.Timing, names []string) *replaced {
	s := newSwarm(t)
	s.timing = timing
	s.form(names...)
	r := &replaced{s, names, 0, map[string]consensus.Config{}, map[string]consensus.JoinRequest{}}
	for _, name := range names {
		r.joins[name] = joinRequest(name)
	}
	return r
}

// via are the addresses of the other servers, as they are now.
func (r *replaced) via(name string) (out []string) {
	for _, n := range others(r.names, name) {
		out = append(out, r.joins[n].Address)
	}
	return out
}

// starts starts a server as a node does: with a join.
func (r *replaced) starts(name string) {
	cfg, ok := r.cfgs[name]
	if !ok {
		cfg = r.config(name)
	}
	sv := r.startWith(cfg)
	go func() { _ = sv.Join(r.within(5*time.Minute), r.via(name), r.joins[name]) }()
}

// leads cuts off whoever leads until the named server does.
func (r *replaced) leads(name string) {
	r.t.Helper()
	for range 50 {
		leader := r.leader(r.names...).name
		if leader == name {
			return
		}
		id := r.joins[leader].Register.Node.PeerID
		r.net.Cut(id)
		r.leader(others(r.names, leader)...)
		r.net.Heal(id)
	}
	r.t.Fatalf("%s never leads", name)
}

// grow adds more entries to the log than raft sends in one message.
func (r *replaced) grow() {
	r.t.Helper()
	for range 70 {
		r.sls++
		r.propose(r.names[0], fmt.Sprint("sl-", r.sls))
	}
}

// replace takes a server's disk and puts a new one in its place.
func (r *replaced) replace(name string) {
	r.t.Helper()
	r.stop(name)
	r.net.Cut("id" + name)
	rest := others(r.names, name)
	on := r.leader(rest...)
	for _, c := range []state.Command{state.SetLive{Node: name}, state.ForgetNode{Node: name}} {
		if _, err := on.Propose(r.within(30*time.Second), c); err != nil {
			r.t.Fatal(err)
		}
	}
	r.cfgs[name], r.joins[name] = r.newDisk(name)
	sv := r.startWith(r.cfgs[name])
	if err := sv.Join(r.within(time.Minute), r.via(name), r.joins[name]); err != nil {
		r.t.Fatalf("replace %s: %v", name, err)
	}
	r.until("all to know that it votes", func() bool { // who does not know it refuses its vote
		return !slices.ContainsFunc(r.names, func(on string) bool { return !slices.Contains(r.voters(on), name) })
	})
}

// TestServersAreReplacedOneAfterTheOther: who reads the log from its start, or is far behind, meets there the names of servers
// that have other keys now, the leader's among them.
func TestServersAreReplacedOneAfterTheOther(t *testing.T) {
	five := []string{"a", "b", "c", "d", "e"}
	small := consensus.Timing{SnapshotAfter: 8, Trailing: 2, SnapshotEvery: time.Second}
	tests := map[string]struct {
		names    []string
		timing   consensus.Timing
		restarts bool
	}{
		"three":                 {names: three},
		"three, restarts":       {names: three, restarts: true},
		"three, with snapshots": {names: three, timing: small, restarts: true},
		"five":                  {names: five},
		"five, restarts":        {names: five, restarts: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplaced(t, tt.timing, tt.names)
				for _, lost := range []string{"c", "b", "a"} {
					r.grow()
					r.replace(lost)
					if tt.restarts {
						for _, n := range tt.names {
							r.stop(n)
							r.starts(n)
							r.leader(tt.names...)
						}
					}
					r.leads(lost)
				}
				r.converged(tt.names...)
			})
		})
	}
}

// TestServerThatIsBehindFollowsAReplacedLeader: it was down while another one was replaced, so by its own configuration the leader
// speaks for somebody else.
func TestServerThatIsBehindFollowsAReplacedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplaced(t, consensus.Timing{}, []string{"a", "b", "c", "d", "e"})
		r.names = []string{"a", "b", "c", "e"}
		r.stop("d")
		r.grow()
		r.replace("c")
		r.leads("c")
		r.names = append(r.names, "d")
		r.starts("d")
		r.grow()
		r.converged(r.names...)
	})
}
