package component

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/text"
)

// maxAnswer bounds what is read of a program's output, in bytes for each stream.
const maxAnswer = 1 << 20

const maxComplaint = 300 // bytes of it that are shown

// LocalExec runs programs in containers at this machine's engine, which it opens for each. It suits
// spire.TokenSource.Exec.
func LocalExec() spire.Exec {
	return func(ctx context.Context, name string, argv []string) ([]byte, error) {
		e, err := engine.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer e.Close()
		return ExecIn(e)(ctx, name, argv)
	}
}

// ExecIn runs programs in containers at e.
func ExecIn(e *engine.Engine) spire.Exec {
	return func(ctx context.Context, name string, argv []string) ([]byte, error) {
		made, err := e.ContainerExecCreate(ctx, name, container.ExecOptions{AttachStdout: true, AttachStderr: true, Cmd: argv})
		if errdefs.IsNotFound(err) {
			return nil, fmt.Errorf("there is no container %q", name)
		}
		if errdefs.IsConflict(err) {
			return nil, fmt.Errorf("container %s does not run", name)
		}
		if err != nil {
			return nil, engine.Explain(err)
		}
		streams, err := e.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
		if err != nil {
			return nil, engine.Explain(err)
		}
		// A read of the connection does not end with ctx by itself.
		stop := context.AfterFunc(ctx, streams.Close)
		defer stop()
		defer streams.Close()
		var stdout, stderr limited
		_, copyErr := stdcopy.StdCopy(&stdout, &stderr, streams.Reader)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s gave no answer: %w", argv[0], ctx.Err())
		}
		end, err := e.ContainerExecInspect(ctx, made.ID)
		if err := errors.Join(copyErr, err); err != nil {
			return nil, engine.Explain(fmt.Errorf("run %s in container %s: %w", argv[0], name, err))
		}
		switch end.ExitCode {
		case 0:
			return stdout.Bytes(), nil
		case 126, 127:
			return nil, fmt.Errorf("%s: %w", argv[0], spire.ErrNoProgram)
		}
		return nil, fmt.Errorf("%s: exit code %d: %s", argv[0], end.ExitCode, lastLine(stderr.String()))
	}
}

// lastLine is what a program complained of, safe to show.
func lastLine(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return text.Clip(text.Line(lines[len(lines)-1]), maxComplaint)
}

// limited keeps the first bytes that are written to it.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), maxAnswer-l.Len())])
	return len(p), nil
}
