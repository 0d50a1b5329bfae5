package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bucket"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of what is served at a time, and of waiting for whoever asks.
const (
	maxStreams  = 128
	maxPerID    = 64              // streams of one SPIFFE ID: a page in a browser has many
	askedWithin = 5 * time.Second // after the stream was opened
	sayWithin   = 2 * time.Second
	// One SPIFFE ID may ask so many times at once, then once in a while. maxIDs is of how many it is known.
	askBurst = 256
	askEach  = 50 * time.Millisecond
	maxIDs   = 256
	// judgeAgain is how often the swarm is asked again whether whoever is connected may be.
	judgeAgain = time.Minute
	maxWords   = 1 << 10 // bytes of an answer
)

// Config is what a host forwards by.
type Config struct {
	Node  string
	Allow func(by string) error // why the host's owner lets a SPIFFE ID have no connection; nil: it may have one
	// Rights asks the swarm why its rights keep a SPIFFE ID from a member of an assignment; empty: they do not. An error says that nobody could tell.
	Rights func(ctx context.Context, by, assignment string) (denied string, err error)
	// Dial connects to a port of a member that runs here, and closes the connection when the member ends, or ctx does. It takes a few seconds at
	// most. An error is for the operator to read; one that is ErrGone says that the member does not run any more.
	Dial func(ctx context.Context, to Target) (Half, error)
	Log  *slog.Logger
}

// ErrGone says that a member does not run.
var ErrGone = errors.New("it does not run")

// server serves streams, so many at a time.
type server struct {
	cfg Config

	taken bucket.Places[string] // streams, by SPIFFE ID

	mu    sync.Mutex
	asked bucket.Set[string] // by SPIFFE ID
}

// ServeMembers forwards connections of operators on a host.
func ServeMembers(host p2p.Network, cfg Config) {
	v := &server{cfg: cfg}
	host.Handle(Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSWCI}}, v.serve)
}

// serve serves one stream, and ends it.
func (v *server) serve(ctx context.Context, s p2p.Conn) {
	who := s.Peer().Identity.String()
	leave, err := v.enter(who)
	if err != nil {
		v.refuse(s, err, false)
		return
	}
	defer leave()
	var to Target
	_ = s.SetDeadline(time.Now().Add(askedWithin))
	if err := p2p.ReadMessage(s, maxMessage, &to); err != nil {
		_ = s.Reset()
		v.cfg.Log.Debug("a connection is asked for in no known form", "by", text.Line(who), "err", err)
		return
	}
	facts := []any{"by", text.Line(who), "assignment", text.Line(to.Assignment), "member", to.Member, "port", to.Port}
	if err := v.judge(ctx, who, to); err != nil {
		v.cfg.Log.Warn("a connection to a member of a job is refused", append(facts, "err", text.Line(err.Error()))...)
		v.refuse(s, err, !errors.Is(err, errUnknown))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := v.cfg.Dial(ctx, to)
	if err != nil {
		v.refuse(s, err, errors.Is(err, ErrGone))
		return
	}
	_ = s.SetDeadline(time.Now().Add(sayWithin))
	if err := p2p.WriteMessage(s, Answer{}); err != nil {
		cut(s, c)
		return
	}
	_ = s.SetDeadline(time.Time{})
	v.cfg.Log.Info("a port of a member of a job is forwarded", facts...)
	var judging sync.WaitGroup
	judging.Go(func() { v.judgeOn(ctx, who, to, facts, cancel) })
	Splice(ctx, s, c)
	cancel()
	judging.Wait()
}

// enter takes a stream in, unless there are too many.
func (v *server) enter(who string) (leave func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	wait, known := v.asked.Take(time.Now(), maxIDs, who, bucket.Rate{Burst: askBurst, Each: askEach}, 1)
	if wait > 0 || !known {
		return nil, fmt.Errorf("%s is asked for connections too often: ask again in %v", v.cfg.Node, max(wait, time.Second).Round(time.Second))
	}
	leave, free := v.taken.Take(who, maxPerID)
	if !free {
		return nil, fmt.Errorf("%s has %d connections to members forwarded for %s already: end one of them first", v.cfg.Node, maxPerID, who)
	}
	if v.taken.Taken() > maxStreams {
		leave()
		return nil, fmt.Errorf("%s forwards %d connections already: try again in a moment", v.cfg.Node, maxStreams)
	}
	return leave, nil
}

// errUnknown says that nobody knows whether an operator may.
var errUnknown = errors.New("no SN says whether the swarm's rights allow it")

// judge says why an operator may have no connection: the owner of the host and the rights of the swarm both let him.
func (v *server) judge(ctx context.Context, who string, to Target) error {
	if err := to.check(); err != nil {
		return err
	}
	if err := v.cfg.Allow(who); err != nil {
		return err
	}
	denied, err := v.cfg.Rights(ctx, who, to.Assignment)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnknown, err)
	case denied != "":
		return errors.New(denied)
	}
	return nil
}

// judgeOn asks the swarm again and again, and ends a connection when the rights do not allow it any more. While no SN says so it goes on.
func (v *server) judgeOn(ctx context.Context, who string, to Target, facts []any, end func()) {
	for pause.For(ctx, judgeAgain) == nil {
		if denied, err := v.cfg.Rights(ctx, who, to.Assignment); err == nil && denied != "" {
			v.cfg.Log.Warn("a port of a member of a job is forwarded no longer", append(facts, "err", text.Line(denied))...)
			end()
			return
		}
	}
}

// refuse says why there is no connection, and ends the stream.
func (v *server) refuse(s p2p.Conn, why error, over bool) {
	_ = s.SetDeadline(time.Now().Add(sayWithin))
	if p2p.WriteMessage(s, Answer{Refused: text.Clip(text.Line(v.cfg.Node+": "+why.Error()), maxWords), Over: over}) != nil {
		_ = s.Reset()
		return
	}
	_ = s.Close()
}
