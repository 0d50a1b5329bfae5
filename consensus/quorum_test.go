package consensus_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/quorum"
)

// asks are the ways to ask for what only a leader can do.
func asks(s *swarm, on string) map[string]func(context.Context) error {
	g := s.servers[on]
	return map[string]func(context.Context) error{
		"propose": func(ctx context.Context) error { _, err := g.Propose(ctx, registerSL("sl-9")); return err },
		"ask": func(ctx context.Context) error {
			return g.WithLeader(ctx, func(context.Context, http.RoundTripper) error { return nil })
		},
		"read": g.Barrier,
		"ban":  func(ctx context.Context) error { _, err := g.Propose(ctx, ban("b")); return err },
	}
}

// TestLostMajorityIsTold: two of three servers are gone. Whoever asks the third one hears within seconds how many answer and which do
// not, and no longer when one is back.
func TestLostMajorityIsTold(t *testing.T) {
	for name, gone := range map[string]func(s *swarm, name string){
		"killed": func(s *swarm, name string) { s.stop(name) },
		"silent": func(s *swarm, name string) { s.stop(name); s.net.swallow("id" + name) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form(three...)
				s.leader(three...)
				if err := s.servers["a"].Quorum(t.Context()); err != nil {
					t.Errorf("with a leader: %v", err)
				}
				gone(s, "b")
				gone(s, "c")
				time.Sleep(10 * time.Second)
				for what, ask := range asks(s, "a") {
					begin := time.Now()
					err := ask(s.within(time.Minute))
					lost, ok := errors.AsType[*quorum.Error](err)
					if !ok || !errors.Is(err, quorum.ErrLost) || !errors.Is(err, consensus.ErrNoLeader) || lost.Error() != "no quorum: 1 of 3 SNs answer" {
						t.Fatalf("%s: got %v", what, err)
					}
					if took := time.Since(begin); took > 3*time.Second {
						t.Errorf("%s: told after %s", what, took)
					}
					if want := "start one of b (b:30303), c (c:30303), or mend"; len(lost.Remedy()) < len(want) || lost.Remedy()[:len(want)] != want {
						t.Errorf("%s: remedy %q", what, lost.Remedy())
					}
					if lost.LeaderSeen.IsZero() || time.Since(lost.LeaderSeen) < 9*time.Second {
						t.Errorf("%s: leader seen %s ago", what, time.Since(lost.LeaderSeen))
					}
				}
				if err := s.servers["a"].Quorum(t.Context()); !errors.Is(err, quorum.ErrLost) {
					t.Errorf("asked whether there is a quorum: %v", err)
				}
				s.net.hear("idb")
				s.start("b")
				s.leader("a", "b")
				s.propose("a", "sl-0")
				if err := s.servers["a"].Quorum(t.Context()); err != nil {
					t.Errorf("with a leader again: %v", err)
				}
			})
		})
	}
}

// TestShortLossOfTheLeaderIsWaitedFor: one of two servers restarts. Nothing is told meanwhile: commands wait.
func TestShortLossOfTheLeaderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b")
		s.leader("a", "b")
		s.stop("b")
		done := make(chan error, 1)
		go func() {
			_, err := s.servers["a"].Propose(s.within(30*time.Second), registerSL("sl-0"))
			done <- err
		}()
		time.Sleep(3 * time.Second)
		s.start("b")
		if err := <-done; err != nil {
			t.Errorf("a proposal during a restart: %v", err)
		}
	})
}

// TestNoLeaderThoughAMajorityAnswers: raft's own streams do not come through. That is another message.
func TestNoLeaderThoughAMajorityAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		s.leader(three...)
		for _, name := range three {
			s.net.nodes["id"+name].Handle(consensus.ProtocolRaft, func(c net.Conn, _ consensus.Peer) { _ = c.Close() })
			s.net.Cut("id" + name)
		}
		for _, name := range three {
			s.net.Heal("id" + name)
		}
		time.Sleep(10 * time.Second)
		_, err := s.servers["a"].Propose(s.within(8*time.Second), registerSL("sl-0"))
		if told, ok := errors.AsType[*quorum.Error](err); !ok || errors.Is(err, quorum.ErrLost) || told.Error() != "no leader yet: 3 of 3 SNs answer" {
			t.Errorf("got %v", err)
		}
		if err := s.servers["a"].Quorum(t.Context()); err != nil {
			t.Errorf("a majority answers, got %v", err)
		}
	})
}

// TestContactIsTold: who follows a leader hears who that is, of each other one and each other term once, and of a quorum that was lost and found.
func TestContactIsTold(t *testing.T) { synctest.Test(t, contactIsTold) }

func contactIsTold(t *testing.T) {
	var heard []consensus.Contact // of one goroutine, and read when that has nothing to do
	s := newSwarm(t)
	s.onContact = func(on string, c consensus.Contact) {
		if on == "a" {
			heard = append(heard, c)
		}
	}
	s.form(three...)
	first := s.leader(three...).name
	time.Sleep(time.Minute)
	synctest.Wait()
	if len(heard) != 1 || heard[0].Leader != first || heard[0].Term == 0 || heard[0].Again || heard[0].Lost != nil {
		t.Errorf("of the first leader, %s, it hears %+v", first, heard)
	}
	s.stop("b")
	s.stop("c")
	time.Sleep(time.Minute)
	synctest.Wait()
	last := heard[len(heard)-1]
	if len(heard) != 2 || last.Lost == nil || len(last.Lost.Answer) != 1 || len(last.Lost.Missing) != 2 || last.Leader != "" {
		t.Errorf("without a quorum it hears %+v", heard)
	}
	s.start("b")
	next := s.leader("a", "b").name
	time.Sleep(time.Minute)
	synctest.Wait()
	if last = heard[len(heard)-1]; len(heard) != 3 || last.Leader != next || last.Term <= heard[0].Term || !last.Again || last.Lost != nil {
		t.Errorf("of the next leader, %s, it hears %+v", next, heard)
	}
}
