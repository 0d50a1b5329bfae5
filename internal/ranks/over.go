package ranks

import (
	"context"
	"errors"
	"log/slog"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/pause"
)

// over ends what is left of ranks. Unless ctx has ended or rank 0 is done it waits until nothing is, however long the swarm does not answer: a start must
// not meet ranks of the one before. It returns how they ended if they had before; nil: they did not, or nobody knows.
func (s *supervised) over(ctx context.Context, id string, exit launch.Exit) (ended *swarmv1.Assignment) {
	why := "rank 0 is done"
	if exit.ExitCode != 0 && ctx.Err() == nil {
		why = state.ClipWords("rank 0: "+exit.String(), task.MaxText)
		a, err := s.end(ctx, id, why)
		if err == nil && a.GetReason() != why {
			ended = a
		}
		if err == nil {
			_, err = s.await(ctx, a, isOver)
		}
		if ctx.Err() == nil {
			s.unended(err)
			return ended
		}
	}
	if ctx.Err() != nil {
		why = "its SL stops"
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaving)
	defer cancel()
	if _, err := s.api.CancelAssignment(asking, id, why); ctx.Err() == nil {
		s.unended(err)
	}
	return ended
}

// end ends an assignment, and asks for that until the swarm answers or ctx ends.
func (s *supervised) end(ctx context.Context, id, why string) (a *swarmv1.Assignment, err error) {
	for {
		asking, cancel := context.WithTimeout(ctx, leaving)
		a, err = s.api.CancelAssignment(asking, id, why)
		cancel()
		if reason := client.Reason(err); err == nil || reason == state.ReasonTaskUnknown || reason == state.ReasonNoRight {
			return a, err
		}
		s.silent.Do(func() { s.Log.Warn("the swarm does not say how the other ranks are", "err", err) })
		if pause.For(ctx, look) != nil {
			return nil, err
		}
	}
}

// unended says that ranks could not be ended; an assignment that the swarm does not know has none.
func (s *supervised) unended(err error) {
	if err != nil && client.Reason(err) != state.ReasonTaskUnknown {
		s.Log.Warn("could not end the other ranks; their hosts do when this node is not heard", "err", err)
	}
}

// clear ends what a start before has left, as of this node's previous run, or because no answer named it, and waits until nothing is.
func (s *supervised) clear(ctx context.Context) error {
	left, err := cancelLeft(ctx, s.api, s.SL, s.Log)
	for _, a := range left {
		if err == nil {
			_, err = s.await(ctx, a, isOver)
		}
		if client.Reason(err) == state.ReasonTaskUnknown {
			err = nil
		}
	}
	return err
}

// cancelLeft ends the jobs that are beside an SL, and returns them.
func cancelLeft(ctx context.Context, api Runs, sl string, log *slog.Logger) (left []*swarmv1.Assignment, err error) {
	all, err := api.ListAssignments(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range all.GetAssignments() {
		if a.GetBeside() != sl || isOver(a) {
			continue
		}
		log.Info("ending the ranks of a start before", "assignment", a.GetId())
		a, err = api.CancelAssignment(ctx, a.GetId(), "its SL was started again")
		switch {
		case err == nil:
			left = append(left, a)
		case client.Reason(err) != state.ReasonTaskUnknown:
			return left, err
		}
	}
	return left, nil
}

// EndLeft ends the ranks that a run before of an SL has left on hosts, whatever this run starts: with the SL back the leader would let them run. Ranks that
// are started afterwards wait for their end, and nothing else does, so what goes wrong is logged.
func EndLeft(ctx context.Context, api Runs, sl string, log *slog.Logger) {
	asking, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	_, err := cancelLeft(asking, api, sl, log)
	if err == nil || ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if e, is := errors.AsType[*client.Error](err); is && (e.Code == connect.CodePermissionDenied || e.Code == connect.CodeUnimplemented) {
		level = slog.LevelDebug // who may not look has started none, or its SN knows of none
	}
	log.Log(ctx, level, "could not look for ranks that this node's previous run has left on hosts: see swarmctl list jobs", "err", err)
}
