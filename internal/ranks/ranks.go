package ranks

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

// Ranks are those of one SL.
type Ranks struct {
	Program

	Port     int // where rank 0 listens; 0: one that is free
	Restarts int // how often all are started again at most
	Log      *slog.Logger
}

// Running is a program that was started.
type Running interface {
	ID() string // for logs
	// Done is closed when it has ended, Wait blocks until then and tells how.
	Done() <-chan struct{}
	Wait() launch.Exit
	Stop(grace time.Duration)
}

// Host is the SL, in which rank 0 runs.
type Host struct {
	// Start starts the program of rank 0 with these variables beside its own, and stops it when ctx ends. With a meeting it begins there, where the others
	// wait for it; nil: the program sees to that.
	Start func(ctx context.Context, env []string, meets *rendezvous.Meeting) (Running, error)
	// Failed is called when all ranks are to be started again, with why: nobody is to wait for the session of the program that has ended.
	Failed func(ctx context.Context, exit launch.Exit)
}

const (
	// look is how often the swarm is asked how the other ranks are.
	look = time.Second
	// parting is for how long the cause is looked for when rank 0 has failed: the others end of it, or it of them. A busy host takes a while to say so.
	parting = 15 * time.Second
	// leaving bounds what is asked of the swarm by a node that stops.
	leaving = 10 * time.Second
)

// Start starts all ranks, and again as often as it may. What it returns ends when the last program of rank 0 has, or the other ranks can't be had. When ctx
// ends all are stopped.
func (r *Ranks) Start(ctx context.Context, api Swarm, host Host) Running {
	ctx, cancel := context.WithCancel(ctx)
	s := &supervised{Ranks: r, api: api, host: host, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		defer close(s.done)
		s.exit = s.run(ctx)
	}()
	return s
}

// supervised is a Running that is one program of rank 0 after the other.
type supervised struct {
	*Ranks
	api    Swarm
	host   Host
	cancel context.CancelFunc
	done   chan struct{}
	exit   launch.Exit // set before done is closed
	silent sync.Once   // that the swarm does not answer is logged once
	avoid  []string    // hosts that have refused
}

// ID implements Running.
func (*supervised) ID() string { return "rank 0" }

// Done implements Running.
func (s *supervised) Done() <-chan struct{} { return s.done }

// Wait implements Running.
func (s *supervised) Wait() launch.Exit {
	<-s.done
	return s.exit
}

// Stop implements Running. Each program has the grace that it was started with.
func (s *supervised) Stop(time.Duration) {
	s.cancel()
	<-s.done
}

func withWords(format string, args ...any) launch.Exit {
	return launch.Exit{ExitCode: 1, Reason: fmt.Sprintf(format, args...)}
}

func (s *supervised) run(ctx context.Context) launch.Exit {
	for n := 0; ; n++ {
		exit, again := s.epoch(ctx, n)
		if !again || ctx.Err() != nil {
			return exit
		}
		if n == s.Restarts {
			if n > 0 {
				exit.Reason += fmt.Sprintf(", after %d restarts of all ranks", n)
			}
			return exit
		}
		s.Log.Warn("a rank has ended too early: all are started again", "restart", n+1, "of", s.Restarts, "why", exit.String())
		s.host.Failed(ctx, exit)
	}
}

// epoch starts all ranks once, on hosts that do not refuse, and returns how they ended, and whether that is a reason to start them again. Nothing of them is
// left then, unless ctx has ended.
func (s *supervised) epoch(ctx context.Context, n int) (exit launch.Exit, again bool) {
	for {
		var ended *swarmv1.Assignment
		exit, again, ended = s.once(ctx, n)
		refused := refusing(ended)
		if len(refused) == 0 || ctx.Err() != nil || exit.Lost {
			return exit, again
		}
		s.avoid = append(s.avoid, refused...)
		if len(s.willing(ended.GetHosts())) == 0 {
			return exit, again
		}
		s.Log.Warn("hosts refuse ranks: the others are asked", "refused", strings.Join(refused, " "), "why", exit.Reason)
	}
}

// willing are those of hosts that have not refused.
func (s *supervised) willing(hosts []string) []string {
	return slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return slices.Contains(s.avoid, h) })
}

// refusing are the hosts that have refused ranks, if that has ended them.
func refusing(a *swarmv1.Assignment) (hosts []string) {
	if a.GetEnd() != string(task.EndRefused) {
		return nil
	}
	for _, m := range a.GetMembers() {
		if m.GetState() == string(task.Refused) && !slices.Contains(hosts, m.GetNode()) {
			hosts = append(hosts, m.GetNode())
		}
	}
	return hosts
}

// once is epoch for the hosts that have not refused yet. ended is how the other ranks have, if this node did not end them.
func (s *supervised) once(ctx context.Context, n int) (exit launch.Exit, again bool, ended *swarmv1.Assignment) {
	port, err := takePort(ctx, s.Port)
	if err != nil {
		return withWords("%v", err), false, nil
	}
	defer port.release()
	x, a, err := s.ask(ctx, port.number, n)
	if err != nil {
		return withWords("%v", err), false, nil
	}
	s.Log.Info("the other ranks are asked for", "ranks", s.Program.Ranks, "hosts", strings.Join(a.GetHosts(), " "), "assignment", a.GetId(), "rank_0", fmt.Sprintf("%s:%d", s.Address, port.number))
	exit, again = s.beside(ctx, x, a)
	if ended = s.over(ctx, a.GetId(), exit); again && ended.GetEnd() == string(task.EndCancelled) {
		exit, again = endOf(ended) // rank 0 failed of it before that was known here
	}
	return exit, again, ended
}

// beside runs rank 0 beside the others, once these run.
func (s *supervised) beside(ctx context.Context, x *planned, a *swarmv1.Assignment) (exit launch.Exit, again bool) {
	a, err := s.await(ctx, a, func(a *swarmv1.Assignment) bool { return a.GetVerdict() != "" || a.GetPhase() == string(task.Running) })
	switch {
	case err != nil:
		return withWords("wait for the other ranks: %v", err), false
	case a.GetVerdict() != "":
		return endOf(a)
	}
	s.Log.Info("the other ranks run", "ranks", s.Program.Ranks, "hosts", strings.Join(on(a), " "))
	var env []string
	for _, v := range x.world.RankZero(jobName(s.SL)+"-"+a.GetId(), deviceOf(s.Address)) {
		env = append(env, v.Name+"="+v.Value)
	}
	meets, err := x.meeting(ctx, &s.Program, a)
	if err != nil {
		return withWords("find the addresses of the ranks: %v", err), false
	}
	within, stop := context.WithCancel(ctx)
	defer stop()
	program, err := s.host.Start(within, env, meets)
	if err != nil {
		return withWords("%v", err), false
	}
	watched, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go func() {
		<-program.Done()
		unwatch()
	}()
	a, _ = s.await(watched, a, func(a *swarmv1.Assignment) bool {
		return a.GetVerdict() != "" && a.GetVerdict() != string(task.Succeeded) || isOver(a)
	})
	if bad := a.GetVerdict() != "" && a.GetVerdict() != string(task.Succeeded); bad && ctx.Err() == nil && !isDone(program) {
		stop() // without the others it trains no more, also if it exits with 0 now
		own := program.Wait()
		if own.Lost {
			return own, false
		}
		exit, again = endOf(a)
		exit.Tail = own.Tail
		return exit, again
	}
	return s.ofRankZero(ctx, a, program.Wait())
}

// isDone reports whether a program has ended by itself.
func isDone(p Running) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// ofRankZero is what the end of rank 0's program means. One that was done needs no other rank any more, and one that failed may have done so as another did.
// Beside one that may still run no other is started.
func (s *supervised) ofRankZero(ctx context.Context, a *swarmv1.Assignment, own launch.Exit) (exit launch.Exit, again bool) {
	if own.Lost {
		return own, false
	}
	limit := parting
	if own.ExitCode == 0 {
		limit = grace
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, _ = s.await(within, a, func(a *swarmv1.Assignment) bool { return a.GetVerdict() != "" })
	bad := a.GetVerdict() != "" && a.GetVerdict() != string(task.Succeeded)
	switch {
	case own.ExitCode == 0 && bad:
		s.Log.Warn("rank 0 is done, and another rank failed at its end", "why", a.GetReason())
		return own, false
	case own.ExitCode == 0 || !bad:
		return own, own.ExitCode != 0
	}
	exit, again = endOf(a)
	exit.Reason += fmt.Sprintf(", and rank 0 with exit code %d", own.ExitCode) // which was first the two hosts' clocks don't say
	exit.Tail = own.Tail
	return exit, again
}

// endOf is the end of ranks by that of their job, and whether they may be started again.
func endOf(a *swarmv1.Assignment) (exit launch.Exit, again bool) {
	again = slices.Contains([]string{string(task.EndMemberFailed), string(task.EndHostLost)}, a.GetEnd())
	if m := firstOf(a); m.GetState() == string(task.Exited) && m.GetCode() > 0 && m.GetCode() < 256 && again {
		return launch.Exit{ExitCode: int(m.GetCode()), Reason: fmt.Sprintf("rank %d on host %s ended with exit code %d", m.GetIndex()+1, m.GetNode(), m.GetCode())}, true
	}
	return withWords("the other ranks: %s: %s", a.GetVerdict(), a.GetReason()), again
}

// firstOf is the rank that has failed, or whose host was lost, before the others did: they may have failed of it. Nil: none.
func firstOf(a *swarmv1.Assignment) (first *swarmv1.AssignmentMember) {
	for _, m := range a.GetMembers() {
		failed := m.GetState() == string(task.Exited) && m.GetCode() != 0 || m.GetState() == string(task.Lost)
		if failed && (first == nil || m.GetChangedUnixMs() < first.GetChangedUnixMs()) {
			first = m
		}
	}
	return first
}

// on are the hosts of ranks.
func on(a *swarmv1.Assignment) (hosts []string) {
	for _, m := range a.GetMembers() {
		hosts = append(hosts, m.GetNode())
	}
	return hosts
}

// await looks at an assignment until it is as it should be, or ctx ends, and says what it waits for. That the swarm does not answer is no reason to give it
// up: hosts and leader do that.
func (s *supervised) await(ctx context.Context, a *swarmv1.Assignment, ok func(*swarmv1.Assignment) bool) (*swarmv1.Assignment, error) {
	said := ""
	for !ok(a) {
		if wants := a.GetWants(); wants != "" && wants != said {
			said = wants
			s.Log.Info("waiting for hosts of the other ranks", "wants", wants)
		}
		if err := pause.For(ctx, look); err != nil {
			return a, err
		}
		now, err := s.api.GetAssignment(ctx, a.GetId())
		switch {
		case client.Reason(err) == state.ReasonTaskUnknown:
			return a, err
		case err != nil && ctx.Err() == nil:
			s.silent.Do(func() { s.Log.Warn("the swarm does not say how the other ranks are", "err", err) })
		case err == nil:
			a = now
		}
	}
	return a, nil
}
