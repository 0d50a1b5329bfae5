package consensus

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/watchdog"
)

// TestStreams shows that streams end by their sender and all at once, and that none is taken afterwards.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := newStreams()
	ends := map[string]net.Conn{}
	for _, id := range []string{"a", "b"} {
		near, far := net.Pipe()
		ends[id] = far
		if !s.enter(near, Peer{PeerID: id}) {
			t.Fatalf("%s: not taken", id)
		}
		go func() {
			_, _ = near.Read(make([]byte, 1))
			s.leave(near)
		}()
	}
	s.closeOf(func(id string) bool { return id == "a" })
	if _, err := ends["a"].Read(make([]byte, 1)); err == nil {
		t.Error("the stream of a is open")
	}
	if err := ends["b"].SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Errorf("the stream of b: %v", err)
	}
	if !s.begin() {
		t.Error("a request was not taken")
	}
	s.end()
	s.close()
	s.wait()
	if near, _ := net.Pipe(); s.begin() || s.enter(near, Peer{}) {
		t.Error("taken after the end")
	}
}

// TestLeadershipTellsTheLast shows that who is slow to listen hears the newest role, and that the end closes all.
func TestLeadershipTellsTheLast(t *testing.T) {
	t.Parallel()
	l := &leadership{}
	slow := l.subscribe()
	l.set(true)
	l.set(false)
	l.set(true)
	if !<-slow {
		t.Error("heard an older role")
	}
	l.close()
	l.close()
	if _, open := <-slow; open {
		t.Error("not closed")
	}
	if _, open := <-l.subscribe(); open {
		t.Error("who comes later waits")
	}
}

// alone is a replica of one server that has no group.
func alone(t *testing.T) *replica {
	t.Helper()
	file, err := ledgerfile.Open(ledgerfile.NewInmem(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := newReplica("sn-1", "id1@host:1", "id1", "sn")
	r.fsm = newFSM(func(err error) { t.Error(err) }, watchdog.New(time.Hour), file)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = "sn-1", nil
	conf.LogOutput = t.Output()
	_, trans := raft.NewInmemTransport("id1@host:1")
	store := raft.NewInmemStore()
	r.entries = store
	if r.raft, err = raft.NewRaft(conf, r.fsm, store, store, raft.NewInmemSnapshotStore(), trans); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.raft.Shutdown().Error(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestReplicaAlone shows what a replica answers that belongs to no group yet.
func TestReplicaAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t)
		if _, err := r.propose(t.Context(), nil); err != ErrNotLeader { //nolint:errorlint // itself
			t.Errorf("propose: %v", err)
		}
		if _, err := r.readIndex(t.Context()); err != ErrNotLeader { //nolint:errorlint // itself
			t.Errorf("readIndex: %v", err)
		}
		if r.leads() || r.follows() || len(r.voters()) != 0 || r.stats().LastContactMS != -1 {
			t.Errorf("leads %v, follows %v, voters %v, %+v", r.leads(), r.follows(), r.voters(), r.stats())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.wait(ctx, 1); err == nil {
			t.Error("an entry was applied")
		}
		close(r.stopped)
		if err := r.await(t.Context(), func() error { time.Sleep(time.Second); return nil }); err != ErrShutdown { //nolint:errorlint // itself
			t.Errorf("await: %v", err)
		}
		r.drain(time.Minute)
		if n := r.calls.Load(); n != 0 {
			t.Errorf("%d calls are left", n)
		}
	})
}

// TestContactWithoutLeader shows that a leader is missed only after an election's time, and that no voters count as no answer.
func TestContactWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t)
		c := newContact(r, &peers{self: r.address, stats: r.stats}, Config{Timing: Timing{Election: time.Second}, Log: slog.New(slog.DiscardHandler)})
		if c.leaderless() {
			t.Error("missed at once")
		}
		time.Sleep(electionsMissed * time.Second)
		if !c.leaderless() || c.quorum(t.Context()) != nil || !c.seen().IsZero() {
			t.Errorf("leaderless %v, quorum %v, seen %v", c.leaderless(), c.quorum(t.Context()), c.seen())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.retry(ctx, func(context.Context, string) error { return &state.Error{} }); err == nil {
			t.Error("there was a leader")
		}
	})
}
