package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/pause"
)

const (
	maxSocketPath = 107
	// longestPause is the longest wait between two attempts to reach a daemon that is started anew.
	longestPause = 2 * time.Second
	// daemonStopped is the reason of a daemon that is about to end.
	daemonStopped = "DAEMON_STOPPED"
)

// Bridge is where a node serves its program.
type Bridge struct {
	Dir string
	// Reconnect is for how long a daemon that is gone is waited for: each request is repeated until then. 0: it will not return.
	Reconnect time.Duration
	// Say, if set, is told that a daemon is waited for, and that it is back.
	Say func(string)
}

// link is HTTP on the bridge's socket.
type link struct {
	bridge Bridge
	client *http.Client
}

func (b Bridge) link() (*link, error) {
	socket := filepath.Join(b.Dir, wire.SocketName)
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s has %d bytes, unix sockets allow %d", socket, len(socket), maxSocketPath)
	}
	if b.Say == nil {
		b.Say = func(string) {}
	}
	return &link{bridge: b, client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}, nil
}

func (l *link) close() { l.client.CloseIdleConnections() }

// call sends a request, and again to a daemon that comes back.
func (l *link) call(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	err = l.once(ctx, path, b, into)
	if !gone(err) || l.bridge.Reconnect <= 0 || path == wire.PathAbort {
		return err
	}
	l.bridge.Say("waiting for the swarm daemon to return")
	limited, cancel := context.WithTimeout(ctx, l.bridge.Reconnect)
	defer cancel()
	for wait := longestPause / 16; gone(err); wait = min(2*wait, longestPause) {
		if pause.For(limited, wait) != nil {
			return fmt.Errorf("the swarm daemon has ended and did not return: %w", err)
		}
		err = l.once(ctx, path, b, into)
	}
	l.bridge.Say("the swarm daemon is back")
	return err
}

// gone reports whether a request's error means that there is no daemon, which may come back.
func gone(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Reason == daemonStopped
	}
	_, unreached := errors.AsType[*unreachedError](err)
	return unreached
}

// unreachedError is that of a request without an answer.
type unreachedError struct{ error }

func (e *unreachedError) Unwrap() error { return e.error }

func (l *link) once(ctx context.Context, path string, b []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bridge"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	if err != nil {
		return &unreachedError{err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return &unreachedError{fmt.Errorf("read answer: %w", err)}
	}
	if resp.StatusCode != http.StatusOK {
		var e wire.ErrorResponse
		if json.Unmarshal(answer, &e) != nil || e.Error.Reason == "" {
			return fmt.Errorf("daemon answered %s", resp.Status)
		}
		return &Error{resp.StatusCode, e.Error.Reason, e.Error.Message, e.Error.Remedy}
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}
