package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/pause"
)

const (
	callLimit = 30 * time.Second // for calls that an engine answers at once
	lookAgain = 30 * time.Second // a wait is renewed, in case its connection died unseen
	// awayLimit is how long a program that shall end is waited for while its engine does not answer. Its daemon must
	// leave the swarm within the time that engines and systemd give it, of which the grace is a part too.
	awayLimit = 10 * time.Second
	minPause  = 100 * time.Millisecond
	maxPause  = 2 * time.Second
)

// Program is a program in a container, running or ended. Its methods are safe for concurrent use.
type Program struct {
	launcher        *Launcher
	id, incarnation string
	log             *slog.Logger
	logs            *logs
	out             *launch.Output
	spec            Spec
	adopted         bool
	giveUp          context.CancelFunc // ends the wait for an engine that does not answer
	stopping        atomic.Bool

	done chan struct{} // closed after exit is set and no goroutine of the program's remains but Start's watch over its context
	exit launch.Exit
}

// ID returns the container's.
func (p *Program) ID() string { return p.id }

// Incarnation returns what names this incarnation of the program: that of its Spec, or the random one.
func (p *Program) Incarnation() string { return p.incarnation }

// Done is closed when the program has ended, all its output was delivered and its container is removed.
func (p *Program) Done() <-chan struct{} { return p.done }

// Wait blocks until Done and tells how the program ended.
func (p *Program) Wait() launch.Exit {
	<-p.done
	return p.exit
}

// Stop sends SIGTERM to the program, SIGKILL after the grace, and blocks until the program has ended. It may be called at any
// time and more than once. An engine that does not answer is given up ten seconds after the grace; the container is then
// left to Find.
func (p *Program) Stop(grace time.Duration) {
	p.stopping.Store(true)
	if p.kill("TERM", grace) || p.kill("KILL", awayLimit) {
		return
	}
	p.giveUp()
	<-p.done
}

// kill sends the signal, again and again until the engine takes it, and reports whether the program ended in time.
func (p *Program) kill(signal string, within time.Duration) bool {
	limit := time.NewTimer(within)
	defer limit.Stop()
	again := time.NewTicker(5 * minPause)
	defer again.Stop()
	for sent := false; ; {
		if !sent {
			sent = p.send(signal, min(max(within, minPause), callLimit))
		}
		select {
		case <-p.done:
			return true
		case <-limit.C:
			return false
		case <-again.C:
		}
	}
}

func (p *Program) send(signal string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := p.launcher.engine.ContainerKill(ctx, p.id, signal)
	return err == nil || errdefs.IsNotFound(err) || errdefs.IsConflict(err) // the last two: there is nothing to signal
}

// run sees the program through to its end and removes the container.
func (p *Program) run(ctx context.Context) {
	defer close(p.done)
	following, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		p.follow(following)
	}()
	e := p.await(ctx)
	stop()
	<-followed
	if !e.vanished && e.lost == "" {
		rest, cancel := context.WithTimeout(ctx, callLimit)
		if err := p.logs.read(rest, false); err != nil {
			p.log.Warn("the last lines of the program's output may be missing", "err", err)
		}
		cancel()
	}
	p.logs.close()
	tail, logErr := p.out.Finish()
	if p.adopted && !e.vanished && e.lost == "" {
		tail = p.lastLines(ctx, tail)
	}
	p.exit = e.exit(tail, logErr)
	if e.lost != "" {
		p.log.Warn("the program's container is left at the engine", "container", engine.ShortID(p.id))
		return
	}
	if err := p.launcher.remove(ctx, p.id); err != nil {
		p.log.Warn("could not remove the program's container", "container", engine.ShortID(p.id), "err", err)
	}
}

// follow passes output on as it comes.
func (p *Program) follow(ctx context.Context) {
	stop := p.logs.passOn()
	defer stop()
	for delay := minPause; ; delay = min(2*delay, maxPause) {
		began := time.Now()
		_ = p.logs.read(ctx, true) // await says what is wrong with the engine
		if time.Since(began) > maxPause {
			delay = minPause
		}
		if pause.For(ctx, delay) != nil {
			return
		}
	}
}

// await blocks until the program has ended, whatever becomes of the engine meanwhile.
func (p *Program) await(ctx context.Context) ending {
	away := false   // the engine did not answer since it last showed the program running
	logged := false // and that was said
	for delay := minPause; ; {
		found, err := p.launcher.inspect(ctx, p.id)
		switch {
		case err == nil && over(found.State):
			return p.ended(ctx, found, away)
		case errdefs.IsNotFound(err):
			return ending{vanished: true}
		case ctx.Err() != nil:
			return ending{lost: reasonLost}
		case err != nil:
			away = true
			if !logged {
				logged = true
				p.log.Warn("the container engine does not answer; waiting for it, the program may run on", "err", err)
				if p.spec.AwayHelp != "" {
					p.log.Warn("if it answers others", "help", p.spec.AwayHelp)
				}
			}
			_ = pause.For(ctx, delay)
			delay = min(2*delay, maxPause)
			continue
		}
		if logged {
			p.log.Info("the container engine is back, the program runs", "container", engine.ShortID(p.id))
		}
		delay, logged = minPause, false
		began := time.Now()
		away = p.waitEnd(ctx)
		if time.Since(began) < minPause {
			_ = pause.For(ctx, minPause)
		}
	}
}

// waitEnd blocks until the engine says that the container ended, or for a while. It reports whether the engine broke off.
func (p *Program) waitEnd(ctx context.Context) (broken bool) {
	limited, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	ended, failed := p.launcher.engine.ContainerWait(limited, p.id, container.WaitConditionNotRunning)
	select { // exactly one of the two comes
	case <-ended:
		return false
	case err := <-failed:
		return limited.Err() == nil && !errdefs.IsNotFound(err)
	}
}

func (p *Program) ended(ctx context.Context, found container.InspectResponse, away bool) ending {
	e := ending{
		code: found.State.ExitCode, oom: found.State.OOMKilled, fault: found.State.Error,
		stopped: p.stopping.Load(), adopted: p.adopted,
	}
	if found.HostConfig != nil {
		e.memory, e.shm = found.HostConfig.Memory, found.HostConfig.ShmSize
	}
	if !e.stopped && !away && e.code != 0 {
		away = p.launcher.leaving(ctx, e.code)
	}
	e.away = away && p.launcher.endsWithEngine(ctx)
	return e
}

// over reports whether a container has ended for good. Podman says stopped where Docker says exited.
func over(s *container.State) bool {
	switch s.Status {
	case container.StateExited, container.StateDead, container.StateRemoving, "stopped":
		return true
	}
	return false
}

// lastLines returns the tail of a program whose earlier output went to another daemon.
func (p *Program) lastLines(ctx context.Context, tail []string) []string {
	if p.spec.LogSince.IsZero() || p.spec.LogTail < 0 {
		return tail
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	out := launch.NewOutput(launch.OutputConfig{LogTail: p.spec.LogTail})
	all := newLogs(p.launcher.engine, p.id, out, time.Time{})
	if err := all.read(ctx, false); err != nil {
		p.log.Warn("could not read the program's last lines", "err", err)
		return tail
	}
	all.close()
	whole, _ := out.Finish() // no file, no error
	return whole
}

// inspect asks for one container, within the limit for quick calls.
func (l *Launcher) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	found, err := l.engine.ContainerInspect(ctx, id)
	if err == nil && (found.ContainerJSONBase == nil || found.State == nil || found.Config == nil) {
		err = errors.New("the engine tells nothing of it")
	}
	if err != nil {
		return found, fmt.Errorf("look at container %s: %w", engine.ShortID(id), err)
	}
	return found, nil
}
