package container

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// capabilities are what engines differ in. Those of Linux are the CapAdd of a Spec.
type capabilities struct {
	logging container.LogConfig
	init    bool // it puts an init process into containers
	podman  bool
	// liveRestore leaves containers running while the engine is restarted.
	liveRestore bool
}

// detect asks the engine once what it can do.
func (l *Launcher) detect(ctx context.Context) (capabilities, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.detected != nil {
		return *l.detected, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := l.engine.Info(ctx)
	if err != nil {
		return capabilities{}, engine.Explain(fmt.Errorf("ask the container engine what it can do: %w", err))
	}
	version, err := l.engine.ServerVersion(ctx)
	if err != nil {
		return capabilities{}, engine.Explain(fmt.Errorf("ask the container engine what it can do: %w", err))
	}
	can := capabilities{init: true, liveRestore: info.LiveRestoreEnabled}
	for _, c := range version.Components {
		can.podman = can.podman || strings.HasPrefix(strings.ToLower(c.Name), "podman")
	}
	// Output is read back from the engine's log: one that it can read, and that does not fill the disk.
	if slices.Contains(info.Plugins.Log, "json-file") {
		can.logging = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "20m", "max-file": "3"}}
	} else if slices.Contains(info.Plugins.Log, "k8s-file") {
		can.logging = container.LogConfig{Type: "k8s-file", Config: map[string]string{"max-size": "60m"}}
	}
	l.detected = &can
	return can, nil
}

// endsWithEngine reports whether programs end when the engine does: Docker's do without live-restore, Podman's never.
func (l *Launcher) endsWithEngine(ctx context.Context) bool {
	can, err := l.detect(ctx)
	if err != nil || can.podman {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := l.engine.Info(ctx) // asked anew: a restart may have changed it
	if err != nil {
		return !can.liveRestore
	}
	return !info.LiveRestoreEnabled
}

const (
	answerLimit = 10 * time.Second
	slowAnswer  = time.Second
)

// leaving reports whether an engine is about to end. It still answers on old connections then, while it stops containers, but
// takes no new ones. Where systemd keeps its socket, new ones wait for the next engine: that long an answer, after an end by
// a signal of those that an engine sends, is taken for one.
func (l *Launcher) leaving(ctx context.Context, code int) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	began := time.Now()
	if l.pingAnew(ctx) != nil {
		return true
	}
	signalled := code == 128+int(syscall.SIGTERM) || code == 128+int(syscall.SIGKILL)
	return signalled && time.Since(began) > slowAnswer
}

// pingAnew asks over a new connection.
func (l *Launcher) pingAnew(ctx context.Context) error {
	c, err := l.engine.Dialer()(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if limit, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(limit) // of a connection that was just made
	}
	if _, err := io.WriteString(c, "GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	_, err = bufio.NewReader(io.LimitReader(c, 1<<10)).ReadString('\n')
	return err
}
