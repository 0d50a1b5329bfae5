package work_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// sites says where members are, and counts how often it was asked.
type sites struct {
	mu    sync.Mutex
	asked []uint32 // epochs
	own   string
	err   error
}

func (s *sites) of(_ context.Context, _ string, epoch uint32) ([]task.Site, error) {
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, epoch)
	return []task.Site{{Node: node, Group: "g", Address: "10.0.0.1", Own: s.own}}, s.err
}

// tells has a host tell its member's own address.
func (s *sites) tells(own string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = own
}

func (s *sites) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// heedful keeps where members are that it is told.
type heedful struct {
	*world

	worlds map[work.Label][]task.Site
}

func (h heedful) Prepare(ctx context.Context, j work.Job) error {
	h.mu.Lock()
	h.worlds[j.Label] = j.World
	h.mu.Unlock()
	return h.world.Prepare(ctx, j)
}

// TestMembersOfOneHostKnowWhereAllAre holds that a host asks once in an epoch for all its members, that each is prepared with the answer, and that it
// asks anew in the next epoch.
func TestMembersOfOneHostKnowWhereAllAre(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends()
		where, told := &sites{}, heedful{l.world, map[work.Label][]task.Site{}}
		l.kind, l.where = work.Type{Executor: told, World: true}, where.of
		l.start()
		show := func(epoch uint32) {
			l.shows(epoch, task.HostedMember{State: task.Placed, Group: "g"}, func(h *task.Hosted) {
				for i := range 2 {
					h.Members = append(h.Members, task.HostedMember{Index: uint32(i) + 1, State: task.Placed, Group: "g"})
				}
			})
		}
		where.fails(errors.New("another epoch"))
		show(1)
		l.beat(20 * time.Second)
		if len(told.worlds) > 0 {
			t.Errorf("prepared without an answer: %v", told.worlds)
		}
		if r := l.host.Report(); len(r) != 3 || r[0].State != task.Asked {
			t.Errorf("it waits as %+v", r)
		}
		where.fails(nil)
		where.mu.Lock()
		where.asked = nil
		where.mu.Unlock()
		l.beat(20 * time.Second)
		for _, epoch := range []uint32{1, 2} {
			if epoch == 2 {
				show(2)
				l.beat(20 * time.Second)
			}
			for i := range 3 {
				who := label(epoch)
				who.Member = uint32(i)
				if d := cmp.Diff([]task.Site{{Node: node, Group: "g", Address: "10.0.0.1"}}, told.worlds[who]); d != "" {
					t.Errorf("member %d of epoch %d: %s", i, epoch, d)
				}
			}
		}
		synctest.Wait()
		if d := cmp.Diff([]uint32{1, 2}, where.asked); d != "" {
			t.Error("asked of epochs:", d)
		}
	})
}

// addressed keeps where members are that it is told when they start.
type addressed struct{ heedful }

func (a addressed) Start(ctx context.Context, j work.Job) (work.Status, error) {
	a.mu.Lock()
	a.worlds[j.Label] = j.World
	a.mu.Unlock()
	return a.world.Start(ctx, j)
}

// TestNothingStartsBeforeAllAddressesAreKnown holds that a host tells the addresses of its members with their preparation, that it starts none before
// those of all are known, and with these, and that it gives up when a host does not tell its own.
func TestNothingStartsBeforeAllAddressesAreKnown(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends()
		where, told := &sites{}, addressed{heedful{l.world, map[work.Label][]task.Site{}}}
		address := func(_ context.Context, l work.Label) (string, error) {
			return fmt.Sprintf("10.9.0.%d", l.Member+1), nil
		}
		l.kind, l.where = work.Type{Executor: told, World: true, Address: address}, where.of
		l.start()
		l.shows(1, task.HostedMember{State: task.Placed, Group: "g"})
		l.beat(10 * time.Second)
		if r := l.host.Report(); len(r) != 1 || r[0].State != task.Prepared || r[0].IP != "10.9.0.1" {
			t.Fatalf("it tells %+v", r)
		}
		running := func(h *task.Hosted) { h.Phase = task.Running }
		l.shows(1, task.HostedMember{State: task.Prepared, Group: "g", Start: true}, running)
		l.beat(10 * time.Second)
		if r := l.host.Report(); r[0].State != task.Prepared || !strings.Contains(r[0].Text, "not started yet") || !strings.Contains(r[0].Text, "has not told which address") {
			t.Errorf("it started with %v, as %+v", told.worlds, r)
		}
		where.tells("10.9.0.1")
		l.beat(10 * time.Second)
		if r := l.host.Report(); r[0].State != task.Started || r[0].IP != "" {
			t.Errorf("it tells %+v", r)
		}
		if d := cmp.Diff([]task.Site{{Node: node, Group: "g", Address: "10.0.0.1", Own: "10.9.0.1"}}, told.worlds[label(1)]); d != "" {
			t.Error(d)
		}
		where.tells("")
		l.shows(2, task.HostedMember{State: task.Placed, Group: "g"})
		l.beat(20 * time.Second)
		l.shows(2, task.HostedMember{State: task.Prepared, Group: "g", Start: true}, running)
		l.beat(3 * time.Minute)
		if r := l.host.Report(); len(r) != 1 || r[0].State != task.Exited || r[0].Code != -1 || !strings.Contains(r[0].Text, "could not be started") {
			t.Errorf("nobody tells: %+v", r)
		}
	})
}

// again keeps which addresses members are to have again.
type again struct {
	*world

	told map[work.Label]string
}

func (a again) Prepare(ctx context.Context, j work.Job) error {
	a.mu.Lock()
	a.told[j.Label] = j.Told
	a.mu.Unlock()
	return a.world.Prepare(ctx, j)
}

// TestOneAddressIsTold holds that a host which has told another address of a member in this epoch tells none, and ends the member with words, and that it
// waits where it can't be kept what it tells.
func TestOneAddressIsTold(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends()
		address := func(context.Context, work.Label) (string, error) { return "10.9.0.2", nil }
		again := again{l.world, map[work.Label]string{}}
		l.kind, l.where = work.Type{Executor: again, World: true, Address: address}, (&sites{}).of
		l.guard.told = map[task.Part]string{label(1).Part(): "10.9.0.1"}
		l.start()
		l.shows(1, task.HostedMember{State: task.Placed, Group: "g"})
		l.beat(10 * time.Second)
		const want = "this host holds 10.9.0.2 for its member, and has told 10.9.0.1 before it was restarted: run the job again"
		if r := l.host.Report(); len(r) != 1 || r[0].State != task.Exited || r[0].IP != "" || r[0].Text != want {
			t.Errorf("it tells %+v", r)
		}
		l.world.mu.Lock()
		if got := again.told[label(1)]; got != "10.9.0.1" {
			t.Errorf("it was prepared to have the address %q again", got)
		}
		l.world.mu.Unlock()
		l.guard.mu.Lock()
		l.guard.fails = errors.New("no space")
		l.guard.mu.Unlock()
		l.shows(2, task.HostedMember{State: task.Placed, Group: "g"})
		l.beat(time.Minute)
		if r := l.host.Report(); len(r) != 1 || r[0].State == task.Prepared || !strings.Contains(r[0].Text, "can't keep which address") {
			t.Errorf("it tells %+v", r)
		}
		l.guard.mu.Lock()
		l.guard.fails = nil
		l.guard.mu.Unlock()
		l.beat(10 * time.Second)
		if r := l.host.Report(); len(r) != 1 || r[0].State != task.Prepared || r[0].IP != "10.9.0.2" {
			t.Errorf("it tells %+v", r)
		}
		l.guard.mu.Lock()
		l.guard.forgets = true
		l.guard.mu.Unlock()
		l.shows(3, task.HostedMember{State: task.Placed, Group: "g"})
		l.beat(10 * time.Second)
		if r := l.host.Report(); len(r) != 1 || r[0].State != task.Exited || !strings.Contains(r[0].Text, "this host has not begun") {
			t.Errorf("it tells %+v", r)
		}
	})
}

// TestAMemberIsDoneOnce: one that has ended and is shown again, as if it had yet to begin, is not begun again while others of its epoch go on.
func TestAMemberIsDoneOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		both := func(state task.State) {
			l.shows(1, task.HostedMember{State: state, Group: "g"}, func(h *task.Hosted) {
				h.Members = append(h.Members, task.HostedMember{Index: 1, State: task.Placed, Group: "g"})
			})
		}
		both(task.Placed)
		l.beat(10 * time.Second)
		l.shows(1, task.HostedMember{Index: 1, State: task.Prepared, Group: "g"}) // the first one is to end
		l.beat(10 * time.Second)
		first := label(1).Part()
		if !l.guard.HasEnded(first) || len(l.guard.ended) > 0 {
			t.Fatalf("ended: %v, and epochs %q", l.guard.parts, l.guard.ended)
		}
		both(task.Placed)
		l.beat(10 * time.Second)
		if r := l.host.Report(); len(r) != 2 || r[0].State != task.Refused || r[1].State != task.Prepared {
			t.Errorf("it says %+v", r)
		}
		if n := strings.Count(strings.Join(l.world.calls, " "), "prepare"); n != 2 {
			t.Errorf("two members were prepared %d times", n)
		}
	})
}

// TestAHostThatNeverHearsWhereMembersAre refuses its members after a while, with words: nothing of them has failed there.
func TestAHostThatNeverHearsWhereMembersAre(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends()
		where := &sites{err: errors.New("no leader")}
		l.kind, l.where = work.Type{World: true}, where.of
		l.start()
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(5 * time.Minute)
		const want = "refused 0 it could not be prepared for 2m0s: its host can't get to know where the other members are: no leader cleaned"
		if len(l.said) == 0 || l.said[len(l.said)-1] != want {
			t.Errorf("said %q", l.said)
		}
	})
}

// TestExecutorsAreToldHowLongMembersMayRun holds that the lease is prolonged by answers of a leader alone.
func TestExecutorsAreToldHowLongMembersMayRun(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends()
		var told []time.Time
		l.kind = work.Type{Lease: func(until time.Time) error {
			told = append(told, until)
			return nil
		}}
		l.start()
		l.shows(1, task.HostedMember{State: task.Placed})
		l.beat(10 * time.Second)
		synctest.Wait()
		if len(told) < 5 {
			t.Fatalf("told %v", told)
		}
		n, left := len(told), time.Until(told[len(told)-1])
		if left > task.LeaseMS*time.Millisecond || left < (task.LeaseMS-2000)*time.Millisecond {
			t.Errorf("last until in %v", left)
		}
		l.away(20 * time.Second)
		synctest.Wait()
		if len(told) > n+1 {
			t.Errorf("without a leader it was told %d times more", len(told)-n)
		}
	})
}
