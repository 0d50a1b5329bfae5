// Package forward carries connections of operators to ports of members of jobs, on streams between the operator and the member's host: the host's
// file server serves them. A stream begins with what the operator asks for, in a frame of internal/p2p; the host's answer, in another one, says
// that it is connected, or why not. Then the stream is the connection.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/p2p"
)

// Protocol is the protocol of connections to members.
const Protocol = "/swarm/forward/1"

// maxMessage bounds what either side says before there is a connection, in bytes.
const maxMessage = 4 << 10

// Target is where a connection leads.
type Target struct {
	Assignment string `json:"assignment"` // ID
	Epoch      uint32 `json:"epoch"`
	Member     uint32 `json:"member"` // index in the epoch
	Port       uint16 `json:"port"`
}

// maxID bounds the ID of an assignment, in bytes.
const maxID = 128

func (t Target) check() error {
	if t.Assignment == "" || len(t.Assignment) > maxID {
		return errors.New("it names no assignment")
	}
	if t.Port == 0 {
		return errors.New("it names no port")
	}
	return nil
}

// Answer is what the host says.
type Answer struct {
	Refused string `json:"refused,omitempty"` // why there is no connection; empty: there is one
	Over    bool   `json:"over,omitempty"`    // the member does not run any more, or the operator may not: another try is in vain
}

// RefusedError is what a host says in the place of a connection.
type RefusedError Answer

// Error implements error.
func (e *RefusedError) Error() string { return e.Refused }

// Ask asks on a stream of Protocol for a connection, which the stream is if there is no error. The answer must come within a time.
func Ask(s p2p.Conn, to Target, within time.Duration) error {
	_ = s.SetDeadline(time.Now().Add(within))
	if err := p2p.WriteMessage(s, to); err != nil {
		return err
	}
	var a Answer
	if err := p2p.ReadMessage(s, maxMessage, &a); err != nil {
		return fmt.Errorf("the host does not answer: %w", err)
	}
	_ = s.SetDeadline(time.Time{})
	if a.Refused != "" {
		return (*RefusedError)(&a)
	}
	return nil
}

// Splice copies between two connections, in each direction until that ends, and closes both. It ends when ctx does, or either connection fails.
func Splice(ctx context.Context, a, b Half) {
	stop := context.AfterFunc(ctx, func() { cut(a, b) })
	defer stop()
	var both sync.WaitGroup
	pass := func(to, from Half) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = to.CloseWrite()
		}
		if err != nil {
			cut(a, b)
		}
	}
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
	_, _ = a.Close(), b.Close()
}

// Half is a connection whose directions end one by one.
type Half interface {
	net.Conn
	CloseWrite() error
}

// cut ends connections at once. A stream says so to its peer.
func cut(all ...Half) {
	for _, c := range all {
		if s, is := c.(p2p.Conn); is {
			_ = s.Reset()
			continue
		}
		_ = c.Close()
	}
}
