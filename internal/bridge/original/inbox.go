package original

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/original/frames"
)

// inbox is what a client sends. It looks for the next header while the last message is answered, and so sees a client that is gone.
type inbox struct {
	pipe    *os.File
	headers chan frames.Header
	resume  chan struct{} // the message was read: the next header may follow
	done    chan struct{}
	err     error // why headers is closed
	body    []byte
}

func newInbox(pipe *os.File) *inbox {
	return &inbox{pipe: pipe, headers: make(chan frames.Header, 1), resume: make(chan struct{}), done: make(chan struct{})}
}

// watch reads headers until the client is gone or close is called, and then calls gone.
func (in *inbox) watch(gone func(error)) {
	defer close(in.headers)
	for {
		var b [frames.HeaderSize]byte
		n, err := io.ReadFull(in.pipe, b[:])
		var h frames.Header
		if err == nil {
			h, err = frames.ParseHeader(b)
		} else if n > 0 {
			err = fmt.Errorf("the program ended a message after %d bytes of its header", n)
		}
		if err != nil {
			in.err = err
			gone(err)
			return
		}
		in.headers <- h
		select {
		case <-in.resume:
		case <-in.done:
			return
		}
	}
}

// header waits for the next one.
func (in *inbox) header(ctx context.Context) (frames.Header, error) {
	select {
	case h, ok := <-in.headers:
		if !ok {
			return h, in.err
		}
		return h, nil
	case <-ctx.Done():
		return frames.Header{}, context.Cause(ctx)
	}
}

// message reads the message behind a header. It is good until the next one is read.
func (in *inbox) message(h frames.Header) ([]byte, error) {
	body, err := frames.ReadBody(in.pipe, h, in.body)
	in.body = body
	if err != nil {
		return nil, err
	}
	in.resume <- struct{}{}
	return body, nil
}

// drainLimit is how long a client that was told what is wrong may go on sending what it was about to.
const drainLimit = 500 * time.Millisecond

// drain reads what still comes from a client that is not understood, so that it comes to read why.
func (in *inbox) drain() {
	_ = in.pipe.SetReadDeadline(time.Now().Add(drainLimit))
	_, _ = io.Copy(io.Discard, in.pipe)
}

func (in *inbox) close() {
	close(in.done)
	_ = in.pipe.Close()
}
