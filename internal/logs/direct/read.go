package direct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/p2p"
)

// silence is after how long a host counts as gone that has begun to answer.
const silence = 3 * logs.Idle

// ErrSilent says that nothing was heard of a host for long.
var ErrSilent = errors.New("the host says nothing any more")

// Read asks on a stream of Protocol and calls fn with what the host sends, until it has sent all, fn fails or ctx ends. The first of it must
// come within a time. began reports whether it came: if not, the host can be asked in another way. Read ends the stream.
func Read(ctx context.Context, s p2p.Conn, o *swarmv1.LogOrder, within time.Duration, fn func(*swarmv1.LogText) error) (began bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	began, err = readAll(s, o, within, fn)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = s.Reset()
		return began, err
	}
	_ = s.Close()
	return began, nil
}

func readAll(s p2p.Conn, o *swarmv1.LogOrder, within time.Duration, fn func(*swarmv1.LogText) error) (began bool, err error) {
	_ = s.SetDeadline(time.Now().Add(within))
	raw, err := proto.Marshal(o)
	if err != nil {
		return false, fmt.Errorf("encode request: %w", err)
	}
	if err := p2p.WriteFrame(s, raw); err != nil {
		return false, err
	}
	for {
		t, err := next(s)
		switch {
		case isTimeout(err) && began:
			return began, ErrSilent
		case errors.Is(err, io.EOF) && began:
			return began, fmt.Errorf("the log breaks off: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return began, err
		}
		began = true
		if err := fn(t); err != nil || t.GetOver() {
			return began, err
		}
		_ = s.SetDeadline(time.Now().Add(silence)) // fn may have taken long
	}
}

// next reads what a host sends next.
func next(r io.Reader) (*swarmv1.LogText, error) {
	raw, err := p2p.ReadFrame(r, logs.MaxDirect)
	if err != nil {
		return nil, err
	}
	t := new(swarmv1.LogText)
	if err := proto.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	return t, nil
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}
