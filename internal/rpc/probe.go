package rpc

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
)

// StartProbe lets the nodes probe each other. Nothing of the state changes, so that no order is signed; how often it can be asked for is
// bounded by the board and by each node.
func (s *swarmService) StartProbe(ctx context.Context, _ *connect.Request[swarmv1.StartProbeRequest]) (*connect.Response[swarmv1.StartProbeResponse], error) {
	if s.cfg.Probes == nil {
		return nil, fmt.Errorf("%w: this SN starts no probes", ErrBadRequest)
	}
	if err := s.leads(ctx); err != nil {
		return nil, err
	}
	run, err := s.cfg.Probes.Start(s.cfg.Core.View())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.StartProbeResponse{Run: run}), nil
}

// GetProbe shows what the last probe has found.
func (s *swarmService) GetProbe(ctx context.Context, _ *connect.Request[swarmv1.GetProbeRequest]) (*connect.Response[swarmv1.GetProbeResponse], error) {
	if err := s.leads(ctx); err != nil {
		return nil, err
	}
	if s.cfg.Probes == nil {
		return connect.NewResponse(&swarmv1.GetProbeResponse{Over: true}), nil
	}
	return connect.NewResponse(s.cfg.Probes.Show()), nil
}

// leads fails unless this SN leads, as far as it knows.
func (s *shared) leads(context.Context) error {
	if name, _, ok := s.cfg.Core.Leader(); !ok || name != s.cfg.Name {
		return consensus.ErrNotLeader
	}
	return nil
}

// probed takes what a node has found in a probe, and tells it of the one that goes on.
func (s *sessionService) probed(node string, report *swarmv1.ProbeReport, res *swarmv1.ReportResponse) {
	if s.cfg.Probes == nil {
		return
	}
	s.cfg.Probes.Take(node, report)
	s.cfg.Probes.Tell(node, report, res)
}
