package p2p

import (
	"log/slog"
	"net"
	"testing"

	"github.com/swarmd/swarmd/identity"
)

func TestMemory(t *testing.T) {
	parse := func(path string) identity.ID {
		id, err := identity.ParseIDString("spiffe://own.example" + path)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	named, other, shared := parse("/swarm/sl/a"), parse("/swarm/sl/b"), parse("/swarm/sl")
	m := newMemory(MemoryLimits{Named: 10, Shared: 20, InAll: 24}, slog.New(slog.DiscardHandler))
	cut := make(chan string, 10)
	open := func(id identity.ID, from, name string) *share {
		return m.add(id, &net.TCPAddr{IP: net.ParseIP(from)}, func() { cut <- name })
	}
	take := func(s *share, n int64) {
		t.Helper()
		if err := s.take(n); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	lose := func(want string) {
		t.Helper()
		if got := <-cut; got != want {
			t.Errorf("%s was cut, want %s", got, want)
		}
	}
	lonely, crowd, more := open(shared, "192.0.2.1", "lonely"), open(shared, "192.0.2.2", "crowd"), open(shared, "192.0.2.2", "more")
	take(lonely, 8)
	take(crowd, 6)
	take(more, 5)
	take(lonely, 2)
	lose("crowd") // not who asks, nor who has most, but who has most at the address that has most
	if crowd.take(1) == nil || crowd.grow(1) {
		t.Error("a connection that was cut takes more")
	}
	crowd.give(6)

	small := open(named, "192.0.2.3", "small") // 15 are in use
	take(small, 9)
	take(open(other, "192.0.2.3", "last"), 1)
	lose("lonely") // of the SPIFFE ID that has most
	if err := small.take(2); err == nil {
		t.Error("more than the limit for one connection")
	}
	lose("small")
	more.leave()

	growing := open(named, "192.0.2.3", "growing")
	if !growing.grow(5) || growing.grow(1) {
		t.Error("what one can do without is not half of the limit")
	}
	take(growing, 5)
	growing.leave()
	growing.give(5)
	if m.used != 1 || len(m.by) != 1 {
		t.Errorf("%d bytes are charged to %d SPIFFE IDs, want 1 to 1", m.used, len(m.by))
	}
}

func TestSpanOfAStreamThatHasEndedTakesNothing(t *testing.T) {
	id, err := identity.ParseIDString("spiffe://own.example/swarm/sl/a")
	if err != nil {
		t.Fatal(err)
	}
	m := newMemory(MemoryLimits{}, slog.New(slog.DiscardHandler))
	scope := &connScope{share: m.add(id, &net.TCPAddr{}, func() {})}
	span, err := scope.BeginSpan()
	if err != nil {
		t.Fatal(err)
	}
	if err := span.ReserveMemory(100, initialPriority); err != nil {
		t.Fatal(err)
	}
	if err := span.ReserveMemory(memoryNamed/2, 128); err == nil {
		t.Error("a window grew beyond half of the limit")
	}
	span.Done()
	span.Done()
	if err := span.ReserveMemory(1, 128); err == nil {
		t.Error("a late reader takes memory that nobody gives back")
	}
	if m.used != 0 {
		t.Errorf("%d bytes are still charged", m.used)
	}
}
