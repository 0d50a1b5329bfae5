package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/session"
)

// judge decides what a program's end means, tells the contract, and returns the node's exit code.
func (r *Runner) judge(ctx context.Context, engine *session.Engine, exit launch.Exit) (int, error) {
	name := r.cfg.Program
	outcome, why := engine.Outcome()
	switch {
	case outcome == session.Failed && isModelLost(why):
		return exitModelLost, withRemedy(why)
	case exit.ExitCode != 0:
		reason := fmt.Sprintf("program %s: %s", name, exit)
		r.tell(ctx, engine, status(exit), reason, exit.Tail)
		return status(exit), fmt.Errorf("%s%s", reason, lastLines(exit.Tail))
	case outcome == session.Finished:
		if v := engine.View(); r.process != nil && v != nil {
			r.process.noteFinished(v.Name, v.Run)
		}
		r.cfg.Log.Info("program ended; serving the final model until every peer has it", "program", name)
		r.linger(ctx, engine)
		return 0, nil
	case outcome == session.NoSession && r.cfg.trainsAlone():
		r.cfg.Log.Warn("program ended; SWARM_LOOPBACK had it train alone, so it took part in no contract", "program", name)
		return 0, nil
	case outcome == session.NoSession:
		return 1, fmt.Errorf("program %s ended without a session: it never called SwarmCallback.on_train_begin; see docs/reference/bridge.md, or run it with SWARM_LOOPBACK=true to train alone", name)
	case outcome == session.Open:
		reason := fmt.Sprintf("program %s ended before its session was closed: it never called SwarmCallback.on_train_end", name)
		r.tell(ctx, engine, 1, reason, nil)
		return 1, errors.New(reason)
	}
	return 1, fmt.Errorf("program %s ended after its session failed: %w", name, why)
}

// exitModelLost is the exit code of a node that has missed the end of its training and finds the final model nowhere: to start it
// again would not help. It is that of swarmctl for what is not found.
const exitModelLost = 5

// isModelLost reports whether a session failed as nobody holds the final model.
func isModelLost(why error) bool {
	own, ok := errors.AsType[*session.Error](why)
	return ok && own.Code == session.CodeModelLost
}

func withRemedy(why error) error {
	if own, ok := errors.AsType[*session.Error](why); ok && own.Help != "" {
		return fmt.Errorf("%w: %s", why, own.Help)
	}
	return why
}

func (r *Runner) lateError() error {
	return fmt.Errorf("program %s opened no session within --session-timeout %s and was stopped", r.cfg.Program, r.cfg.SessionTimeout)
}

// stopLinger bounds how long a node that is to stop serves the final model of a program that was started by hand. Whatever has started
// that stops the node as soon as it ends, and Slurm and Kubernetes kill it 30 seconds later unless told otherwise.
const stopLinger = 20 * time.Second

// lingering is what a node asks its session engine at the end.
type lingering interface {
	Outcome() (session.Outcome, error)
	Linger(ctx context.Context) error
}

// linger serves the final model until every peer has it, but not for ever.
func (r *Runner) linger(ctx context.Context, engine lingering) {
	r.lingerFor(ctx, engine, r.cfg.Linger)
}

// lingerStopped does what linger does on a node that is told to stop when its program may have just ended.
func (r *Runner) lingerStopped(ctx context.Context, engine lingering) {
	if outcome, _ := engine.Outcome(); outcome == session.Finished {
		r.lingerFor(context.WithoutCancel(ctx), engine, min(r.cfg.Linger, stopLinger))
	}
}

func (r *Runner) lingerFor(ctx context.Context, engine lingering, limit time.Duration) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := engine.Linger(limited); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("some peers may not have the final model", "linger", limit.String(), "err", err)
	}
}

// tell gives the contract the reason before the node goes.
func (r *Runner) tell(ctx context.Context, engine *session.Engine, code int, reason string, tail []string) {
	if len(tail) > 0 {
		reason += "; last line: " + tail[len(tail)-1]
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := engine.ProgramExited(ctx, code, reason); err != nil {
		r.cfg.Log.Warn("could not tell the contract that the program failed", "err", err)
	}
}

// status is the program's exit code as a process can have it: a container that vanished has none.
func status(exit launch.Exit) int {
	if exit.ExitCode < 0 || exit.ExitCode > 255 {
		return 1
	}
	return exit.ExitCode
}

const lastLinesHead = "; last lines:"

func lastLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lastLinesHead + "\n  " + strings.Join(lines, "\n  ")
}

// Reason is the first line of an error of Run, without the program's output.
func Reason(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, lastLinesHead)
}
