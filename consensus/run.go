package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ending shuts a group down, once.
type ending struct {
	once   sync.Once
	result error // what shutting down came to
	// hangUp ends leadership and all streams, which the others notice, and tells raft to end.
	hangUp func() (ended raft.Future, err error)
}

// Close shuts the group down as Run does. It is for callers that opened a group and can't get as far as Run.
func (g *Group) Close() error {
	g.end.once.Do(func() { g.end.result = g.shutdown() })
	return g.end.result
}

// Run does the leader's housekeeping and waits until ctx ends, which is no error, or this node can't follow the log any
// further. Before it returns it hands leadership over, if it can within two seconds, and closes everything.
func (g *Group) Run(ctx context.Context) error {
	runCtx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	for _, task := range []func(context.Context){
		g.lead.run, g.joiner.run, g.replica.spread, g.bans.run, g.ledger.run, g.contact.watch,
		func(ctx context.Context) { trim(ctx, g.replica, g.storage.growth, g.log) },
	} {
		tasks.Go(func() { task(runCtx) })
	}
	var cause error
	hung := false
	select {
	case <-ctx.Done():
	case <-g.replica.stopped:
	case cause = <-g.failed:
	case <-g.storage.disk.Hung():
		cause, hung = g.storage.disk.Cause(), true
	}
	if cause == nil {
		select {
		case cause = <-g.failed: // which may have ended the rest
		default:
		}
	}
	cancel()
	ended := make(chan error, 1)
	var err error
	if !hung {
		if cause != nil {
			g.log.Error("consensus stops", "err", cause)
		}
		go func() {
			tasks.Wait()
			ended <- g.Close()
		}()
		select {
		case err = <-ended:
		case <-g.storage.disk.Hung():
			cause, hung = g.storage.disk.Cause(), true
		}
	}
	if hung { // Some goroutines are in a write, and others wait for them. The stores stay open; the process is to end.
		raftEnds, _ := g.end.hangUp()
		_ = g.lead.ends(raftEnds)
		g.log.Error("consensus stops", "err", cause) // only now: the log may lie on the same disk
	}
	g.lead.close()
	if cause != nil {
		return fmt.Errorf("run consensus: %w", cause)
	}
	return err
}

func (g *Group) hangUpNow() (ended raft.Future, err error) {
	close(g.replica.stopped)
	g.replica.settled.Store(false)
	ended = g.replica.raft.Shutdown()
	g.endpoint.streams.close()
	g.peers.conns.Close()
	g.endpoint.server.Close()
	g.trans.CloseStreams()
	return ended, g.trans.Close()
}

// shutdown ends, in this order: leadership, so that the others need not wait for an election; the streams, so that
// nothing blocks; raft; the stores under it.
func (g *Group) shutdown() error {
	if err := g.replica.handOver(2 * time.Second); err != nil {
		g.log.Info("leadership not handed over", "err", err)
	}
	g.replica.drain(2 * time.Second)
	ended, err := g.end.hangUp()
	g.endpoint.streams.wait()
	err = errors.Join(err, <-g.lead.ends(ended))
	if err = errors.Join(err, g.storage.close()); err != nil {
		return fmt.Errorf("close consensus: %w", err)
	}
	return nil
}
