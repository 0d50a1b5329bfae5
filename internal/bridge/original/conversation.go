package original

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/swarmd/swarmd/internal/bridge/original/frames"
	"github.com/swarmd/swarmd/internal/text"
)

// The versions that clients say. Releases 2.1 to 2.3 say the second, whatever their messages look like.
const (
	firstVersion = 1
	version      = 2
)

// conversation is with one client, from the opening of the pipes to their end.
type conversation struct {
	front   *Front
	in      *inbox
	out     *os.File
	version uint32

	session string // by which the client knows it; empty: none is open
	opening frames.Opening
	node    *node  // nil: the client has not handed in weights yet
	module  string // of numpy's, where weights lie in files; empty: they are in messages
}

// errorInProgram is what the client itself did wrong. Other errors are the node's.
type errorInProgram struct{ error }

func (e errorInProgram) Unwrap() error { return e.error }

func wrong(format string, args ...any) error { return errorInProgram{fmt.Errorf(format, args...)} }

// verdict is an error for the client, which raises it with these words.
func verdict(err error) frames.Verdict {
	if err == nil {
		return frames.Verdict{Code: frames.OK}
	}
	v := frames.Verdict{Code: frames.ErrorInNode, Message: text.Line(inWords(err))}
	if _, own := errors.AsType[errorInProgram](err); own {
		v.Code = frames.ErrorInUser
	}
	return v
}

// run answers the client until it is gone, or until nothing can be said to it any more.
func (c *conversation) run(base context.Context) error {
	ctx, cancel := context.WithCancelCause(base)
	defer cancel(nil)
	go c.in.watch(cancel)
	for {
		h, err := c.in.header(ctx)
		if err == nil {
			err = c.versionIs(h)
		}
		var message []byte
		if err == nil {
			message, err = c.in.message(h)
		}
		if err == nil {
			err = c.answer(ctx, base, h.Type, message)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			_ = c.send(frames.Status, verdict(err).Append(nil)) // the error is what counts
			c.in.drain()
		}
		return err
	}
}

func (c *conversation) close() {
	c.in.close()
	_ = c.out.Close()
	c.node.release()
}

// versionIs holds a header to the versions that there are. The first one counts.
func (c *conversation) versionIs(h frames.Header) error {
	if h.Version != firstVersion && h.Version != version {
		c.version = h.Version // else the client would not read what is wrong
		return wrong("Mismatch in the Swarm API version between ML and SL containers. Expected version %d, but the version received from the header is %d", version, h.Version)
	}
	c.version = h.Version
	return nil
}

func (c *conversation) send(t frames.Type, message []byte) error {
	h := frames.Header{Version: c.version, Type: t, Size: uint32(len(message))} //nolint:gosec // some strings and numbers
	_, err := c.out.Write(append(h.Append(nil), message...))
	return err
}

// answer does what a message asks for. Its error ends the conversation. The client ends ctx by going, only this program base.
func (c *conversation) answer(ctx, base context.Context, t frames.Type, message []byte) error {
	switch t {
	case frames.OpenSession:
		return c.open(message)
	case frames.Sync, frames.CloseSession:
		return c.merge(ctx, t, message)
	case frames.KillSession:
		return c.kill(base, message)
	}
	return wrong("the program sent a message of type %d, which is unsupported here", t)
}

// open takes the terms. The node is told of them with the first weights: it needs to know the model.
func (c *conversation) open(message []byte) error {
	opening, err := frames.ParseOpening(message)
	if err != nil {
		return errorInProgram{err}
	}
	if c.session != "" {
		err := wrong("session %s is open at this node and its program is connected: open one session, and close it before the next", c.session)
		c.front.Say(err.Error())
		return c.send(frames.SessionOpened, frames.AppendOpened(nil, verdict(err), ""))
	}
	c.opening, c.session = opening, rand.Text()
	return c.send(frames.SessionOpened, frames.AppendOpened(nil, verdict(nil), c.session))
}

// merge answers Sync and CloseSession: the client is asked to take each model on the way, and told at last how to go on.
func (c *conversation) merge(ctx context.Context, t frames.Type, message []byte) error {
	offer, err := frames.ParseOffer(message)
	if err != nil {
		return errorInProgram{err}
	}
	answer := map[frames.Type]frames.Type{frames.Sync: frames.Synced, frames.CloseSession: frames.SessionClosed}[t]
	interval, over, err := c.exchange(ctx, t, offer)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		c.front.Say(inWords(err))
		return c.send(answer, frames.AppendDone(nil, offer, verdict(err), 1, false))
	}
	return c.send(answer, frames.AppendDone(nil, offer, verdict(nil), interval, over))
}

func (c *conversation) exchange(ctx context.Context, t frames.Type, offer frames.Offer) (interval int32, over bool, err error) {
	if c.session == "" || offer.Session != c.session {
		return 0, false, wrong("session %q is not open: open a session first", text.Clip(offer.Session, 64))
	}
	if err := c.handIn(ctx, offer); err != nil {
		return 0, false, err
	}
	turn := &turn{conversation: c, offer: offer}
	if t == frames.CloseSession {
		err := turn.finish(ctx)
		c.forget()
		return 1, true, err
	}
	res, err := turn.sync(ctx)
	return int32(min(max(res.Interval, 1), math.MaxInt32)), res.TrainingOver, err //nolint:gosec // just bounded
}

// kill ends the session without an answer: a client whose training the others have ended, or that gives up.
func (c *conversation) kill(ctx context.Context, message []byte) error {
	reason, err := frames.ParseKill(message)
	if err != nil {
		return errorInProgram{err}
	}
	if c.node == nil {
		c.forget()
		return nil
	}
	c.front.leaving.Lock()
	defer c.front.leaving.Unlock()
	if reason.Code == frames.OK {
		err = c.node.close(ctx)
	} else {
		err = c.node.abort(ctx, reason.Message)
	}
	c.forget()
	if err != nil {
		c.front.Say(inWords(err))
	}
	return nil
}

// forget lets the client open another session.
func (c *conversation) forget() {
	c.node.release()
	c.node, c.session = nil, ""
}
