package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	// stopSlack is how much longer than the component's own grace its stop may take.
	stopSlack = 15 * time.Second
	// goneLimit is how long after the end of its output a container may take to have ended. One that takes longer goes on
	// without us: the user has detached with the engine's keys.
	goneLimit = 3 * time.Second
	// flushLimit bounds the wait for the output of a container that has ended.
	flushLimit = 5 * time.Second
)

// attached starts the container with the user at its streams and waits for its end.
func (l *launcher) attached(ctx context.Context) (int, error) {
	s := l.spec
	// What concerns a running container must not end with ctx: it is stopped then, and its last words are shown.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var stopping sync.WaitGroup
	defer stopping.Wait()
	defer cancel()
	// Attached and waited for before it starts, so that nothing it says and not even the shortest life is missed.
	streams, err := l.engine.ContainerAttach(live, l.id, container.AttachOptions{Stream: true, Stdin: s.Interactive, Stdout: true, Stderr: true})
	if err != nil {
		return 0, l.undo(ctx, engine.Explain(fmt.Errorf("attach to container of %s: %w", l.what(), err)))
	}
	defer streams.Close()
	condition := container.WaitConditionNextExit
	if s.Remove {
		condition = container.WaitConditionRemoved
	}
	ended, failed := l.engine.ContainerWait(live, l.id, condition)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		show(streams.Reader, l.io, s.TTY)
	}()
	if err := l.start(ctx); err != nil {
		streams.Close()
		<-shown
		return 0, l.undo(ctx, err)
	}
	restore, err := l.keyboard(live, streams)
	if err != nil {
		l.log.Warn("the terminal stays as it is", "err", err)
	}
	defer restore()
	var silent <-chan struct{} = shown
	stop := ctx.Done()
	var outputEnded <-chan time.Time
	for {
		select {
		case <-stop:
			stop = nil
			stopping.Go(func() { l.stop(live) })
		case <-silent:
			silent = nil
			outputEnded = time.After(goneLimit)
		case <-outputEnded:
			outputEnded = nil
			if l.running(live) {
				l.log.Info("detached: the component goes on", "container", engine.ShortID(l.id))
				return 0, nil
			}
		case end := <-ended:
			flush(shown)
			return int(end.StatusCode), endError(end)
		case err := <-failed:
			return 0, engine.Explain(fmt.Errorf("wait for %s: %w", l.what(), err))
		}
	}
}

func endError(end container.WaitResponse) error {
	if end.Error != nil {
		return errors.New(end.Error.Message)
	}
	return nil
}

// show copies the component's output until its end. A terminal's output is one stream.
func show(from io.Reader, user IO, tty bool) {
	var err error
	if tty {
		_, err = io.Copy(user.Stdout, from)
	} else {
		_, err = stdcopy.StdCopy(user.Stdout, user.Stderr, from)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		user.Log.Debug("the component's output ends", "err", err)
	}
}

// flush waits for the rest of the output.
func flush(shown <-chan struct{}) {
	select {
	case <-shown:
	case <-time.After(flushLimit):
	}
}

// stop asks the component to end as docker stop does: SIGTERM, and SIGKILL after its grace.
func (l *launcher) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopSeconds*time.Second+stopSlack)
	defer cancel()
	l.log.Info("stopping the component", "container", engine.ShortID(l.id))
	if err := l.engine.ContainerStop(ctx, l.id, container.StopOptions{}); err != nil && !errdefs.IsNotFound(err) && ctx.Err() == nil {
		l.log.Warn("the container can't be stopped", "container", engine.ShortID(l.id), "err", err)
	}
}

func (l *launcher) running(ctx context.Context) bool {
	c, err := l.engine.ContainerInspect(ctx, l.id)
	return err == nil && c.State != nil && c.State.Running
}

// keyboard passes the user's input on, and makes their terminal the component's. The returned function gives the terminal
// back; it is never nil.
func (l *launcher) keyboard(ctx context.Context, streams types.HijackedResponse) (restore func(), err error) {
	restore = func() {}
	if !l.spec.Interactive || l.io.Stdin == nil {
		return restore, nil
	}
	if l.spec.TTY {
		f, ok := l.io.Stdin.(*os.File)
		if !ok {
			return restore, nil
		}
		// Raw: keys, Ctrl-C among them, are the component's.
		state, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return restore, err
		}
		stopResizing := l.followSize(ctx, f)
		restore = func() {
			stopResizing()
			_ = term.Restore(int(f.Fd()), state)
		}
	}
	go func() {
		// It ends with the input or, at the next key, with the connection: a read of a terminal can't be broken off.
		_, _ = io.Copy(streams.Conn, l.io.Stdin)
		_ = streams.CloseWrite()
	}()
	return restore, nil
}

// followSize gives the component's terminal the size of the user's, now and whenever it changes.
func (l *launcher) followSize(ctx context.Context, f *os.File) (stop func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil {
				_ = l.engine.ContainerResize(ctx, l.id, container.ResizeOptions{Width: uint(max(w, 0)), Height: uint(max(h, 0))})
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		cancel()
		<-done
	}
}
