package direct

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bucket"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/text"
)

// Protocol is the protocol of logs.
const Protocol = "/swarm/logs/1"

// Bounds of what is served at a time, and of waiting for whoever asks.
const (
	maxAsked    = 24 << 10 // bytes of a request
	maxStreams  = 32
	maxPerID    = 16              // streams of one SPIFFE ID
	askedWithin = 5 * time.Second // after the stream was opened
	refuseLimit = 2 * time.Second
	// stall is how long whoever asked may leave unread what was sent: somebody may look at a page of it.
	stall = 5 * time.Minute
	// One SPIFFE ID may ask so many times at once, then once in a while: each time is a line in the host's log. maxIDs is of how many it is known.
	askBurst = 64
	askEach  = time.Second
	maxIDs   = 256
)

// server serves streams, so many at a time.
type server struct {
	logs *logs.Host
	node string
	log  *slog.Logger

	taken bucket.Places[string] // streams, by SPIFFE ID

	mu    sync.Mutex
	asked bucket.Set[string] // by SPIFFE ID
}

// HandOut serves the logs of a node, which has this name, to operators on its host.
func HandOut(host p2p.Network, from *logs.Host, node string, log *slog.Logger) {
	v := &server{logs: from, node: node, log: log}
	host.Handle(Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSWCI}}, v.serve)
}

// serve serves one stream, and ends it.
func (v *server) serve(ctx context.Context, s p2p.Conn) {
	who := s.Peer().Identity.String()
	leave, err := v.enter(who)
	if err != nil {
		v.log.Debug("a log is not handed out", "by", text.Line(who), "err", err)
		_ = s.SetDeadline(time.Now().Add(refuseLimit))
		// Not denied: others who have the ID may be the reason, and the way through SNs is open.
		if send(s, &swarmv1.LogText{Over: true, Refused: text.Line(err.Error())}) != nil {
			_ = s.Reset()
			return
		}
		_ = s.Close()
		return
	}
	defer leave()
	if err := v.answer(ctx, s); err != nil {
		_ = s.Reset()
		v.log.Info("a log is not read to its end", "by", text.Line(who), "err", text.Line(err.Error()))
		return
	}
	_ = s.Close()
}

// enter takes a stream in, unless there are too many.
func (v *server) enter(who string) (leave func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	wait, known := v.asked.Take(time.Now(), maxIDs, who, bucket.Rate{Burst: askBurst, Each: askEach}, 1)
	if wait > 0 || !known {
		return nil, fmt.Errorf("%s is asked for logs too often: ask again in %v", v.node, max(wait, time.Second).Round(time.Second))
	}
	leave, free := v.taken.Take(who, maxPerID)
	if !free {
		return nil, fmt.Errorf("%s hands out %d logs to %s already: end one of them first", v.node, maxPerID, who)
	}
	if v.taken.Taken() > maxStreams {
		leave()
		return nil, fmt.Errorf("%s hands out %d logs already: ask again in a moment", v.node, maxStreams)
	}
	return leave, nil
}

// answer reads the request, and hands out the log for as long as it is read.
func (v *server) answer(ctx context.Context, s p2p.Conn) error {
	_ = s.SetDeadline(time.Now().Add(askedWithin))
	o, err := readOrder(s)
	if err != nil {
		return err
	}
	_ = s.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() }) // a write may wait
	defer stop()
	var watch sync.WaitGroup
	watch.Go(func() {
		var more [1]byte
		if _, err := s.Read(more[:]); ctx.Err() == nil { // nothing may follow the request: who asked has gone
			v.log.Debug("a log is read no more", "err", err)
			cancel()
		}
	})
	err = v.logs.Direct(ctx, s.Peer().Identity, o, func(t *swarmv1.LogText) error {
		_ = s.SetWriteDeadline(time.Now().Add(stall))
		return send(s, t)
	})
	stop()
	cancel()
	_ = s.SetReadDeadline(time.Now())
	watch.Wait()
	return err
}

// readOrder reads a request. What it says is not its matter.
func readOrder(r io.Reader) (*swarmv1.LogOrder, error) {
	raw, err := p2p.ReadFrame(r, maxAsked)
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	o := new(swarmv1.LogOrder)
	if err := proto.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return o, nil
}

// send sends a text in one frame.
func send(s p2p.Conn, t *swarmv1.LogText) error {
	raw, err := proto.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode lines: %w", err)
	}
	return p2p.WriteFrame(s, raw)
}
