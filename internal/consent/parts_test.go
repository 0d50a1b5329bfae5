package consent_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
)

// TestEachMemberOnce: of several members that a host is, each is carried out once in an epoch, whatever an SN shows while others go on, and also
// after a restart.
func TestEachMemberOnce(t *testing.T) {
	w := newWorld(t)
	g, h, shown := w.guard(), &task.Hosted{}, pull()
	w.job(h, shown, 2)
	part := func(epoch, member uint32) task.Part {
		return task.Part{Host: host, Assignment: "7", Epoch: epoch, Member: member}
	}
	ended := func(want string) {
		t.Helper()
		got := ""
		for _, p := range []task.Part{part(1, 0), part(1, 1), part(1, 1023), part(2, 0), part(2, 1)} {
			if g.HasEnded(p) {
				got += " " + strings.TrimPrefix(p.String(), host+"/7/")
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("ended: %q, want %q", got, want)
		}
	}
	done := func(p task.Part) {
		t.Helper()
		if err := g.PartEnded(p); err != nil {
			t.Fatal(err)
		}
	}
	allowed := func() {
		t.Helper()
		if got := g.Ask(t.Context(), h, shown); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
	}
	done(part(1, 0)) // it was not begun
	ended("")
	allowed()
	done(part(2, 0)) // of an epoch that was not begun
	done(part(1, 1023))
	done(part(1, 0))
	done(part(1, 0))
	ended("1/0 1/1023")
	g = w.guard() // started again
	ended("1/0 1/1023")
	allowed() // for the other one
	if err := g.Ended("7", 1, "exited with 0"); err != nil {
		t.Fatal(err)
	}
	ended("1/0 1/1 1/1023")
	h.Epoch = 2
	allowed()
	ended("")
	done(part(2, 1))
	ended("2/1")
}

// TestOneAddressOfAMember: in an epoch a host tells one of each, also after a restart.
func TestOneAddressOfAMember(t *testing.T) {
	w := newWorld(t)
	g, h, shown := w.guard(), &task.Hosted{}, pull()
	w.job(h, shown, 2)
	once := func(epoch, member uint32, ip, want string) {
		t.Helper()
		if got, err := g.AddressOnce(task.Part{Host: host, Assignment: "7", Epoch: epoch, Member: member}, ip); got != want || (err != nil) != (ip == "no address") {
			t.Errorf("member %d of epoch %d is told at %q, %v, want %q", member, epoch, got, err, want)
		}
	}
	allowed := func() {
		t.Helper()
		if got := g.Ask(t.Context(), h, shown); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
	}
	once(1, 0, "10.9.0.2", "") // it was not begun
	allowed()
	once(1, 1, "10.9.0.3", "10.9.0.3")
	once(1, 11, "fd00:9::4", "fd00:9::4")
	g = w.guard() // started again
	allowed()
	once(1, 1, "10.9.0.5", "10.9.0.3")
	once(1, 11, "10.9.0.5", "fd00:9::4")
	once(1, 0, "10.9.0.5", "10.9.0.5")
	once(2, 0, "10.9.0.6", "") // of an epoch that was not begun
	once(1, 2, "no address", "")
	if err := g.Ended("7", 1, "exited with 0"); err != nil {
		t.Fatal(err)
	}
	once(1, 0, "10.9.0.6", "")
	h.Epoch = 2
	allowed()
	once(2, 1, "10.9.0.7", "10.9.0.7")
}

// TestWhoApprovesAJobKnowsHowManyMembers the host is, and may be.
func TestWhoApprovesAJobKnowsHowManyMembers(t *testing.T) {
	w := newWorld(t)
	w.policy.Verdict = consent.Verdict{Decision: consent.Asked, Sentence: "Ask"}
	h, shown := &task.Hosted{}, pull()
	w.job(h, shown, 1)
	const want = "waits for approval: swarmctl approve task pull on swop-0; as 1 of 2 members, and 2 at most"
	if got := w.guard().Ask(t.Context(), h, shown); got.Decision != consent.Asked || got.Words != want {
		t.Errorf("got %v, want %q", got, want)
	}
}

// TestOnePartOfATask: a host that is one member of what is no job is no other one in the same epoch, also if an SN shows the first no more.
func TestOnePartOfATask(t *testing.T) {
	w := newWorld(t)
	g, h := w.guard(), w.assigned(request(), ann)
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
		t.Fatal(got)
	}
	h.Members[0].Index = 1
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "another member of it than the one that it has begun") {
		t.Errorf("another one: %v", got)
	}
	h.Epoch = 2
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
		t.Errorf("in the next placement: %v", got)
	}
}
