package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	tailLines = "20"     // of a container's log
	maxTail   = 64 << 10 // bytes of them
)

// LastLines are the last lines that a container printed; nil where the engine has none.
func (e *Engine) LastLines(ctx context.Context, id string) []string {
	logs, err := e.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: tailLines})
	if err != nil {
		return nil
	}
	defer logs.Close()
	var said bytes.Buffer
	_, _ = stdcopy.StdCopy(&said, &said, io.LimitReader(logs, maxTail)) // what is there counts
	return strings.Split(said.String(), "\n")
}

// Printed hands out the last lines that a container has printed, and with follow those that come then, until it has ended or ctx does. One that is
// gone has none.
func (e *Engine) Printed(ctx context.Context, id string, tail int, follow bool, emit func(line string) error) error {
	logs, err := e.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Tail: strconv.Itoa(tail)})
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return Explain(fmt.Errorf("read what container %s has printed: %w", ShortID(id), err))
	}
	defer logs.Close()
	// One of each: a line of the one may come within a line of the other.
	out, errs := &text.Lines{Emit: emit}, &text.Lines{Emit: emit}
	_, err = stdcopy.StdCopy(out, errs, logs)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, out.Rest(), errs.Rest())
}
