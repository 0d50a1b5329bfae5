package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/python"
)

// stopGrace is how long a program may take to end when the daemon is stopped.
const stopGrace = 5 * time.Second

// program is the ML program of an SL, ready to start.
type program struct {
	cfg  SLConfig
	spec launch.Spec
}

func newProgram(ctx context.Context, cfg SLConfig, interpreter string) (*program, error) {
	model, err := filepath.Abs(cfg.ModelDir)
	if err != nil {
		return nil, err
	}
	data := cfg.DataDir
	if data != "" {
		if data, err = filepath.Abs(data); err != nil {
			return nil, err
		}
	}
	environ := launch.EnvConfig{
		Inherit: os.Environ(), DataDir: data, ModelDir: model, BridgeDir: cfg.BridgeDir, Peer: cfg.Name, Extra: cfg.Env,
	}
	own, err := launch.ProgramEnv(environ)
	if err != nil {
		return nil, err
	}
	if environ.PythonPath, err = launch.PythonPath(ctx, interpreter, own, python.Source(), filepath.Join(cfg.StateDir, "python")); err != nil {
		return nil, err
	}
	full, err := launch.ProgramEnv(environ)
	if err != nil {
		return nil, err
	}
	path := cfg.Program
	if !filepath.IsAbs(path) {
		path = filepath.Join(model, path)
	}
	return &program{cfg: cfg, spec: launch.Spec{
		Name: cfg.Program, Path: interpreter, Args: []string{"-u", path}, Dir: model, Env: full, Grace: stopGrace,
		LogFile: launch.LogFile(model, cfg.Program),
		Line:    func(_, line string) { fmt.Fprintf(cfg.Stdout, "program | %s\n", line) },
	}}, nil
}

// run starts the program and stays until it has ended and nobody needs this node any more. It returns the exit code.
func (p *program) run(ctx context.Context, engine *session.Engine) (int, error) {
	log := p.cfg.Log
	started, err := launch.Start(ctx, p.spec)
	if err != nil {
		return 1, err
	}
	log.Info("program started", "program", p.cfg.Program, "python", p.spec.Path, "pid", started.PID())
	log.Warn("runtime process: the program is not walled in, it sees this machine and its network as the daemon does")
	watched, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	late := p.stopWithoutSession(watched, started, engine)
	exit := started.Wait()
	if ctx.Err() != nil {
		return exit.ExitCode, ctx.Err()
	}
	outcome, why := engine.Outcome()
	switch {
	case late.Load():
		return 1, fmt.Errorf("program %s opened no session within --session-timeout %s and was stopped", p.cfg.Program, p.cfg.SessionTimeout)
	case exit.ExitCode != 0:
		reason := fmt.Sprintf("program %s: %s", p.cfg.Program, exit)
		p.tell(ctx, engine, exit.ExitCode, reason, exit.Tail)
		return exit.ExitCode, fmt.Errorf("%s; last lines:\n%s", reason, indent(exit.Tail))
	case outcome == session.Finished:
		log.Info("program ended; serving the final model until every peer has it", "program", p.cfg.Program)
		linger, cancel := context.WithTimeout(ctx, p.cfg.Linger)
		defer cancel()
		if err := engine.Linger(linger); err != nil && ctx.Err() == nil {
			log.Warn("some peers may not have the final model", "linger", p.cfg.Linger.String(), "err", err)
		}
		return 0, nil
	case outcome == session.NoSession:
		return 1, fmt.Errorf("program %s ended without a session: it never called SwarmCallback.on_train_begin; see docs/reference/bridge.md, or run it with SWARM_LOOPBACK=true to train alone", p.cfg.Program)
	case outcome == session.Open:
		reason := fmt.Sprintf("program %s ended before its session was closed: it never called SwarmCallback.on_train_end", p.cfg.Program)
		p.tell(ctx, engine, 1, reason, nil)
		return 1, fmt.Errorf("%s", reason)
	}
	return 1, fmt.Errorf("program %s ended after its session failed: %w", p.cfg.Program, why)
}

// stopWithoutSession ends a program that has not opened a session in time, if a time is set. The result tells whether.
func (p *program) stopWithoutSession(ctx context.Context, started *launch.Process, engine *session.Engine) *atomic.Bool {
	late := new(atomic.Bool)
	if p.cfg.SessionTimeout <= 0 {
		return late
	}
	go func() {
		timer := time.NewTimer(p.cfg.SessionTimeout)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if outcome, _ := engine.Outcome(); outcome == session.NoSession {
			late.Store(true)
			started.Stop(stopGrace)
		}
	}()
	return late
}

// tell gives the contract the reason before the node goes.
func (p *program) tell(ctx context.Context, engine *session.Engine, code int, reason string, tail []string) {
	if len(tail) > 0 {
		reason += "; last line: " + tail[len(tail)-1]
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := engine.ProgramExited(ctx, code, reason); err != nil {
		p.cfg.Log.Warn("tell the contract that the program failed", "err", err)
	}
}

func indent(lines []string) string {
	return "  " + strings.Join(lines, "\n  ")
}
