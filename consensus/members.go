package consensus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/identity/naming"
)

// addServer adds or updates the server and reports whether it votes. A new one follows the log first, so that one that
// can't be reached never counts for the quorum, and votes as soon as it has caught up.
func (g *Group) addServer(ctx context.Context, req JoinRequest) (voter bool, err error) {
	id, address := raft.ServerID(req.Name), raft.ServerAddress(req.Address)
	done := false
	err = g.changing(ctx, func() error {
		voter, done, err = g.follow(ctx, id, address)
		return err
	})
	if err != nil || done {
		return voter, err
	}
	// Others may join while this one catches up.
	if twin, shared := g.twin(req.Name); shared {
		g.log.Warn("SNs that vote share a SPIFFE ID: who has it can make a majority of it; give each an entry of its own", "node", req.Name, "voter", twin)
	} else if twin != "" {
		g.log.Warn("server gets no vote: its SPIFFE ID has one already", "node", req.Name, "voter", twin)
		return false, nil
	}
	if len(g.voters()) >= MaxVoters || !g.caughtUp(ctx, req.Address) {
		return false, nil
	}
	err = g.changing(ctx, func() error {
		if len(g.voters()) >= MaxVoters || !slices.ContainsFunc(g.servers(), func(s raft.Server) bool { return s.ID == id && s.Address == address }) {
			return nil // others were faster, or it is gone again: autopilot sees to it
		}
		voter = true
		return g.change(ctx, func() raft.IndexFuture { return g.raft.AddVoter(id, address, 0, 0) })
	})
	if errors.Is(err, errBusy) {
		return false, nil // it is a server, and votes later
	}
	if err == nil && voter {
		g.log.Info("server votes", "node", req.Name)
	}
	return voter && err == nil, err
}

// twin returns a voter that has the SPIFFE ID of another server, which then gets no vote: who was given one identity must not
// make a majority of it. The seed's entry that all SNs share names nobody, so there it is only told.
func (g *Group) twin(name string) (voter string, shared bool) {
	view := g.View()
	own := view.Nodes[name]
	if own == nil || own.SPIFFEID == "" {
		return "", false
	}
	for _, v := range g.voters() {
		if n := view.Nodes[string(v.ID)]; n != nil && n.Name != name && n.SPIFFEID == own.SPIFFEID {
			return n.Name, strings.HasSuffix(own.SPIFFEID, "/swarm/"+naming.RoleSN)
		}
	}
	return "", false
}

// follow makes a server follow the log; done tells that nothing remains to be done for it. The caller holds joining.
func (g *Group) follow(ctx context.Context, id raft.ServerID, address raft.ServerAddress) (voter, done bool, err error) {
	for _, s := range g.servers() {
		if s.ID != id {
			continue
		}
		voter = s.Suffrage == raft.Voter
		if s.Address == address && (voter || len(g.voters()) >= MaxVoters) {
			return voter, true, nil
		}
		if voter {
			return true, true, g.change(ctx, func() raft.IndexFuture { return g.raft.AddVoter(id, address, 0, 0) })
		}
	}
	if err := g.change(ctx, func() raft.IndexFuture { return g.raft.AddNonvoter(id, address, 0, 0) }); err != nil {
		return false, false, err
	}
	g.heard.Touch(string(id), time.Now())
	g.log.Info("server added", "node", string(id), "address", string(address))
	return false, false, nil
}

// errBusy says that another change of the configuration is under way.
var errBusy = errors.New("another SN is being let in or out right now; ask again")

// changing calls fn while nobody else changes the configuration, each of which looks at it first. It waits for others for
// a moment only: who asks comes again, and a change that hangs must not make others hang.
func (g *Group) changing(ctx context.Context, fn func() error) error {
	waitCtx, cancel := context.WithTimeout(ctx, busyAfter)
	err := g.acquire(waitCtx)
	cancel()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return errBusy
		}
		return err
	}
	defer g.release()
	return fn()
}

func (g *Group) change(ctx context.Context, start func() raft.IndexFuture) error {
	return g.await(ctx, func() error { return fromRaft(start().Error()) })
}

// caughtUp waits a short while for a new server to have the log; later it is autopilot's to promote it.
func (g *Group) caughtUp(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout/4)
	defer cancel()
	goal := g.raft.LastIndex()
	for {
		if s, err := g.fetchStats(ctx, address); err == nil && s.LastIndex >= goal && !s.LedgerBehind {
			return true
		}
		timer := time.NewTimer(2 * minBackoff)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
