package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/probe/board"
)

// maxOrder bounds a job and a report on a stream between SNs, in bytes.
const maxOrder = 256 << 10

// Order has the SN at an address carry out a job, and returns what it has found when it is done.
func Order(ctx context.Context, network p2p.Network, at p2p.Addr, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error) {
	s, err := network.Dial(ctx, at, OrderProtocol, false, func(p p2p.Peer) error { return p.Is(identity.RoleSN) })
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	report := &swarmv1.ProbeReport{}
	if err = writeMessage(s, job); err == nil {
		err = readMessage(s, report)
	}
	if err != nil {
		_ = s.Reset()
		return nil, fmt.Errorf("have it probe: %w", err)
	}
	if !board.ReportFits(report) {
		_ = s.Reset()
		return nil, errors.New("what it found is out of bounds")
	}
	return report, s.Close()
}

// OrderTo returns what has an SN carry out its job: by the agent itself if that is the SN called self, else over the network.
func (a *Agent) OrderTo(self string) func(ctx context.Context, sn *state.Node, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error) {
	return func(ctx context.Context, sn *state.Node, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error) {
		if sn.Name == self {
			return a.Do(ctx, job)
		}
		id, err := peer.Decode(sn.PeerID)
		if err != nil {
			return nil, err
		}
		return Order(ctx, a.cfg.Network, p2p.Addr{PeerID: id, Host: sn.Host, Port: int(sn.P2PPort)}, job)
	}
}

// ServeOrders begins to carry out jobs that other SNs of the swarm give, as one of them leads. is reports whether a peer ID is an SN's.
func (a *Agent) ServeOrders(is func(peerID string) bool) {
	a.cfg.Network.Handle(OrderProtocol, p2p.Policy{Roles: []identity.Role{identity.RoleSN}}, func(ctx context.Context, s p2p.Conn) {
		if err := a.obey(ctx, s, is); err != nil {
			a.cfg.Log.Debug("order to probe was not carried out", "peer", s.Peer().String(), "err", err)
			_ = s.Reset()
			return
		}
		_ = s.Close()
	})
}

func (a *Agent) obey(ctx context.Context, s p2p.Conn, is func(peerID string) bool) error {
	if !is(s.Peer().ID.String()) {
		return fmt.Errorf("%s is no SN of this swarm", s.Peer())
	}
	job := &swarmv1.ProbeJob{}
	_ = s.SetReadDeadline(time.Now().Add(peerTimeout))
	if err := readMessage(s, job); err != nil {
		return err
	}
	report, err := a.Do(ctx, job)
	if err != nil {
		return err
	}
	return writeMessage(s, report)
}

func writeMessage(w io.Writer, m proto.Message) error {
	raw, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)) //nolint:gosec // small
	return err
}

// readMessage reads a message of at most maxOrder bytes.
func readMessage(r io.Reader, m proto.Message) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxOrder {
		return fmt.Errorf("a message of %d bytes, at most %d", n, maxOrder)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	return proto.Unmarshal(raw, m)
}
