package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/roster"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// probeTimeout bounds the question whether an SN is there.
const probeTimeout = 2 * time.Second

// membership is who is a server and who votes: it changes the configuration, one change at a time. Only the leader can.
type membership struct {
	replica *replica
	peers   *peers
	heard   *roster.Roster
	joining chan struct{} // capacity 1: taken while the configuration is changed
	log     *slog.Logger
}

func newMembership(r *replica, p *peers, heard *roster.Roster, log *slog.Logger) *membership {
	return &membership{replica: r, peers: p, heard: heard, joining: make(chan struct{}, 1), log: log}
}

// list is [Group.Servers].
func (m *membership) list() []Server {
	leader, _, _ := m.replica.leader()
	heard := map[string]time.Time{}
	if m.replica.leads() {
		heard = m.heard.All()
		heard[m.replica.name] = time.Now()
	}
	var out []Server
	for _, s := range m.replica.servers() {
		name := string(s.ID)
		out = append(out, Server{
			Name: name, Address: string(s.Address), Voter: s.Suffrage == raft.Voter,
			Leader: name == leader, LastContact: heard[name],
		})
	}
	return out
}

// addServer adds or updates the server and reports whether it votes. A new one follows the log first, so that one that
// can't be reached never counts for the quorum, and votes as soon as it has caught up.
func (m *membership) addServer(ctx context.Context, req JoinRequest) (voter bool, err error) {
	id, address := raft.ServerID(req.Name), raft.ServerAddress(req.Address)
	done := false
	err = m.changing(ctx, func() error {
		voter, done, err = m.ensureServer(ctx, id, address)
		return err
	})
	if err != nil || done {
		return voter, err
	}
	// Others may join while this one catches up.
	if twin, shared := m.twin(req.Name); shared {
		m.log.Warn("SNs that vote share a SPIFFE ID: who has it can make a majority of it; give each an entry of its own", "node", req.Name, "voter", twin)
	} else if twin != "" {
		m.log.Warn("server gets no vote: its SPIFFE ID has one already", "node", req.Name, "voter", twin)
		return false, nil
	}
	if len(m.replica.voters()) >= MaxVoters || !m.caughtUp(ctx, req.Address) {
		return false, nil
	}
	err = m.changing(ctx, func() error {
		if len(m.replica.voters()) >= MaxVoters || !slices.ContainsFunc(m.replica.servers(), func(s raft.Server) bool { return s.ID == id && s.Address == address }) {
			return nil // others were faster, or it is gone again: autopilot sees to it
		}
		voter = true
		return m.change(ctx, func() raft.IndexFuture { return m.replica.raft.AddVoter(id, address, 0, 0) })
	})
	if errors.Is(err, errBusy) {
		return false, nil // it is a server, and votes later
	}
	if err == nil && voter {
		m.log.Info("server votes", "node", req.Name)
	}
	return voter && err == nil, err
}

// twin returns a voter that has the SPIFFE ID of another server, which then gets no vote: one identity must not become a
// majority. The seed's entry, which all SNs share, identifies nobody, so there the vote is given and a warning logged.
func (m *membership) twin(name string) (voter string, shared bool) {
	view := m.replica.view()
	own := view.Nodes[name]
	if own == nil || own.SPIFFEID == "" {
		return "", false
	}
	for _, v := range m.replica.voters() {
		if n := view.Nodes[string(v.ID)]; n != nil && n.Name != name && n.SPIFFEID == own.SPIFFEID {
			return n.Name, strings.HasSuffix(own.SPIFFEID, "/swarm/"+naming.RoleSN)
		}
	}
	return "", false
}

// ensureServer makes a server follow the log. It reports whether the server votes, and whether nothing remains to be done. The
// caller holds joining.
func (m *membership) ensureServer(ctx context.Context, id raft.ServerID, address raft.ServerAddress) (voter, done bool, err error) {
	for _, s := range m.replica.servers() {
		if s.ID != id {
			continue
		}
		voter = s.Suffrage == raft.Voter
		if s.Address == address && (voter || len(m.replica.voters()) >= MaxVoters) {
			return voter, true, nil
		}
		if voter {
			return true, true, m.change(ctx, func() raft.IndexFuture { return m.replica.raft.AddVoter(id, address, 0, 0) })
		}
	}
	if err := m.change(ctx, func() raft.IndexFuture { return m.replica.raft.AddNonvoter(id, address, 0, 0) }); err != nil {
		return false, false, err
	}
	m.heard.Touch(string(id), time.Now())
	m.log.Info("server added", "node", string(id), "address", string(address))
	return false, false, nil
}

// errBusy says that another change of the configuration is under way.
var errBusy = errors.New("another SN is being let in or out right now; ask again")

// changing calls fn while nobody else changes the configuration. It waits for its turn only briefly: callers try again, and a
// change that hangs must not block others.
func (m *membership) changing(ctx context.Context, fn func() error) error {
	waitCtx, cancel := context.WithTimeout(ctx, busyAfter)
	err := m.acquire(waitCtx)
	cancel()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return errBusy
		}
		return err
	}
	defer m.release()
	return fn()
}

func (m *membership) change(ctx context.Context, start func() raft.IndexFuture) error {
	return m.replica.await(ctx, func() error { return fromRaft(start().Error()) })
}

// caughtUp waits a short while until a new server has the log. After that autopilot promotes it.
func (m *membership) caughtUp(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout/4)
	defer cancel()
	goal := m.replica.raft.LastIndex()
	for {
		if s, err := m.peers.fetchStats(ctx, address); err == nil && s.LastIndex >= goal && !s.LedgerBehind {
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

// unfit reports whether a server must not vote yet.
func (m *membership) unfit(name string) bool {
	twin, shared := m.twin(name)
	return m.heard.IsBehind(name) || twin != "" && !shared
}

// leaving returns the node key whose server is to leave the configuration before a command: of a ban, and of an SN that is
// forgotten.
func (m *membership) leaving(c state.Command) (peerID string) {
	switch c := c.(type) {
	case state.BanNode:
		return c.PeerID
	case state.ForgetNode:
		if n := m.replica.view().Nodes[c.Node]; n != nil && n.Role == naming.RoleSN {
			return n.PeerID
		}
	}
	return ""
}

// proposeWithout removes the server of a node key from the configuration, and then proposes data, the encoded command that ends
// the membership of the key. In the other order a crash in between would leave a voter that nobody talks to.
func (m *membership) proposeWithout(ctx context.Context, peerID string, c state.Command, data []byte) (applied, error) {
	if err := m.acquire(ctx); err != nil {
		return applied{}, err
	}
	defer m.release()
	if _, _, err := m.replica.view().Apply(c); err != nil {
		return applied{}, err // a command that the state refuses must not remove a server
	}
	if err := m.expel(ctx, peerID); err != nil {
		return applied{}, err
	}
	return m.replica.propose(ctx, data)
}

// acquire waits for the right to change the configuration, which the leader gives to one at a time.
func (m *membership) acquire(ctx context.Context) error {
	select {
	case m.joining <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.replica.stopped:
		return ErrShutdown
	}
}

func (m *membership) release() { <-m.joining }

// expel takes the server of a node key out of the configuration, if there is one. The caller holds joining.
func (m *membership) expel(ctx context.Context, peerID string) error {
	for _, s := range m.replica.servers() {
		if id, _, err := ParseAddress(string(s.Address)); err != nil || id != peerID {
			continue
		}
		if err := m.expendable(ctx, s); err != nil {
			return err
		}
		if string(s.ID) == m.replica.name {
			return m.handOver(ctx)
		}
		if err := m.change(ctx, func() raft.IndexFuture { return m.replica.raft.RemoveServer(s.ID, 0, 0) }); err != nil {
			return err
		}
		m.log.Warn("server expelled", "node", string(s.ID), "address", string(s.Address))
	}
	return nil
}

// expendable returns an error if the remaining voters that answer are no majority of the remaining voters.
func (m *membership) expendable(ctx context.Context, out raft.Server) error {
	if out.Suffrage != raft.Voter {
		return nil
	}
	rest := quorumOf(slices.DeleteFunc(m.replica.voters(), func(v raft.Server) bool { return v.ID == out.ID }))
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if c := quorum.Poll(ctx, rest, m.peers.probe); !c.Majority() {
		return &state.Error{
			Reason:  state.ReasonQuorum,
			Message: fmt.Sprintf("without SN %s the swarm could not agree any more: of the other %d voting SNs %d answer, %d must", out.ID, c.Voters(), len(c.Answer), c.Voters()/2+1),
			Remedy:  "start the missing SNs, or another one, first",
		}
	}
	return nil
}

// handOver makes another server the leader, since one can't expel itself. It returns ErrNotLeader when that is done, for
// the caller to ask the new leader.
func (m *membership) handOver(ctx context.Context) error {
	if err := m.replica.await(ctx, func() error { return m.replica.raft.LeadershipTransfer().Error() }); err != nil {
		return &state.Error{
			Reason: state.ReasonQuorum, Message: fmt.Sprintf("the leader %s is to be taken out and could not hand over leadership: %v", m.replica.name, err),
			Remedy: "try again, or stop that SN first",
		}
	}
	return ErrNotLeader
}

// expelStrangers expels servers of banned and forgotten nodes, so that no server counts for the quorum that no list shows. Where
// operators admit SNs, it also expels those that are no longer admitted.
func (m *membership) expelStrangers(ctx context.Context) {
	for _, s := range m.replica.servers() {
		id, _, err := ParseAddress(string(s.Address))
		if err != nil || m.belongs(string(s.ID), id) {
			continue
		}
		if err := m.acquire(ctx); err != nil {
			return
		}
		if !m.belongs(string(s.ID), id) { // it may have registered meanwhile
			err = m.expel(ctx, id)
		}
		m.release()
		if err != nil && ctx.Err() == nil {
			m.log.Debug("server not expelled yet", "node", string(s.ID), "err", err)
		}
	}
}

// belongs reports whether the newest state has a server of the configuration, which registers before it becomes one. Only a founder
// is one before: this server.
func (m *membership) belongs(name, id string) bool {
	view := m.replica.view()
	n := view.Nodes[name]
	return view.Banned(id) == nil && view.CheckAdmission(name, id) == nil && (n != nil && n.PeerID == id || name == m.replica.name)
}
