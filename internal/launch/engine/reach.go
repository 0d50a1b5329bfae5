package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
)

// Of what an engine was asked to run.
var (
	ErrRestarted = errors.New("the container engine was restarted meanwhile, and ended it")
	ErrSilent    = errors.New("the container engine does not answer any more")
)

// OutOfReach reports whether an error is of an engine that can't be reached now, or went away during the call, which another try may find back:
// what was asked for may be done or not. That this process may not use the engine's socket does not pass.
func OutOfReach(err error) bool {
	var several interface{ OutOfReach() bool }
	var dial *net.OpError
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrPermission):
		return false
	case errors.As(err, &several):
		return several.OutOfReach()
	}
	return client.IsErrConnectionFailed(err) || errdefs.IsUnavailable(err) || errors.As(err, &dial) || errors.Is(err, ErrRestarted) || errors.Is(err, ErrSilent) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
