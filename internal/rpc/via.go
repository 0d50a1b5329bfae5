package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
)

// KindVia is what SNs ask the leader for: the SN through which each node last reported. Empty payload; answer:
// ListNodesResponse, whose nodes have a name and an SN only. Register [Server.LeadVia] for it on every SN that may lead.
const KindVia = "via"

// viaTimeout is short: the list of nodes is told without it too.
const viaTimeout = time.Second

// LeadVia tells on the leader through which SN nodes reported; it is the handler of KindVia.
func (s *Server) LeadVia(context.Context, consensus.Peer, []byte) ([]byte, error) {
	out := &swarmv1.ListNodesResponse{}
	for _, n := range reporters(s.cfg.Core.View()) {
		if sn := s.healths.via(n.Name); sn != "" {
			out.Nodes = append(out.Nodes, &swarmv1.Node{Name: n.Name, Sn: sn})
		}
	}
	return proto.Marshal(out)
}

// askVia returns the SN of each node that reports, as far as the leader knows and tells it.
func (s *Server) askVia(ctx context.Context) map[string]string {
	if _, _, led := s.cfg.Core.Leader(); !led {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, viaTimeout)
	defer cancel()
	raw, err := s.cfg.Core.SendToLeader(ctx, KindVia, nil)
	m := &swarmv1.ListNodesResponse{}
	if err != nil || proto.Unmarshal(raw, m) != nil {
		return nil
	}
	via := map[string]string{}
	for _, n := range m.GetNodes() {
		via[n.GetName()] = n.GetSn()
	}
	return via
}
