package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

// ListContracts returns all contracts, sorted by name.
func (s *Server) ListContracts(context.Context, *connect.Request[swarmv1.ListContractsRequest]) (*connect.Response[swarmv1.ListContractsResponse], error) {
	view := s.cfg.Core.View()
	out := &swarmv1.ListContractsResponse{}
	for _, name := range view.ContractNames() {
		out.Contracts = append(out.Contracts, summaryToProto(view.Contracts[name]))
	}
	return connect.NewResponse(out), nil
}

// GetContractStatus asks the leader, who alone knows progress and what is waited for. While there is no leader it
// answers from here, and that is what is waited for.
func (s *Server) GetContractStatus(ctx context.Context, req *connect.Request[swarmv1.GetContractStatusRequest]) (*connect.Response[swarmv1.GetContractStatusResponse], error) {
	name := req.Msg.GetContract()
	if !state.ValidContractName(name) {
		return nil, badContractName(name)
	}
	raw, err := s.cfg.Core.SendToLeader(ctx, KindStatus, []byte(name))
	if err == nil {
		out := &swarmv1.GetContractStatusResponse{}
		if err := proto.Unmarshal(raw, out); err != nil {
			return nil, fmt.Errorf("decode the leader's status: %w", err)
		}
		return connect.NewResponse(out), nil
	}
	if !errors.Is(err, consensus.ErrNoLeader) {
		return nil, err
	}
	view, index := s.cfg.Core.View(), s.cfg.Core.Index()
	c := view.Contracts[name]
	if c == nil {
		return nil, unknownContract(name)
	}
	return connect.NewResponse(&swarmv1.GetContractStatusResponse{
		Contract: viewToProto(view, c, index), Waiting: leaderless, Explanation: s.explainLeaderless(view, c),
	}), nil
}

const leaderless = "the SNs have no leader: a majority of them must run"

// explainLeaderless is the explanation of an SN that is cut off from the others, or whose swarm lost most of its SNs.
func (s *Server) explainLeaderless(view *state.State, c *state.Contract) []string {
	var sns []string
	for _, n := range view.NodesByRole(state.RoleSN) {
		sns = append(sns, n.Name)
	}
	return []string{
		fmt.Sprintf("contract %s, run %d, is %s: the last round that SN %s knows is %d", c.Name, c.Run, c.Phase(), s.cfg.Name, c.Round()),
		leaderless + ", and reach each other; the SNs are " + strings.Join(sns, ", "),
		"nothing is planned or committed until then; what runs on the other side of a network split is not known here",
		"to do: start the SNs that are down, or mend the network between them",
	}
}

// ResetContract begins a new run.
func (s *Server) ResetContract(ctx context.Context, req *connect.Request[swarmv1.ResetContractRequest]) (*connect.Response[swarmv1.ResetContractResponse], error) {
	res, err := s.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ResetContractResponse{Run: res.Run}), nil
}

// DeleteContract removes a contract.
func (s *Server) DeleteContract(ctx context.Context, req *connect.Request[swarmv1.DeleteContractRequest]) (*connect.Response[swarmv1.DeleteContractResponse], error) {
	name := req.Msg.GetContract()
	if !state.ValidContractName(name) {
		return nil, badContractName(name)
	}
	res, err := s.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.DeleteContractResponse{Run: res.Run}), nil
}

// CreateContract sets a contract's rules.
func (s *Server) CreateContract(ctx context.Context, req *connect.Request[swarmv1.CreateContractRequest]) (*connect.Response[swarmv1.CreateContractResponse], error) {
	name := req.Msg.GetContract()
	if !state.ValidContractName(name) {
		return nil, badContractName(name)
	}
	rules, err := rulesFromProto(req.Msg.GetRules())
	if err != nil {
		return nil, err
	}
	if _, err := s.order(ctx, req.Msg); err != nil {
		return nil, err
	}
	var out *swarmv1.ContractView
	err = s.see(ctx, func(view *state.State, index uint64) bool {
		c := view.Contracts[name]
		if c == nil || !proto.Equal(rulesToProto(c.Rules), rulesToProto(setRules(rules))) {
			return false
		}
		out = viewToProto(view, c, index)
		return true
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CreateContractResponse{Contract: out}), nil
}

func badContractName(name string) error {
	return fmt.Errorf("%w: contract name %.160q: use 1 to 128 of A-Z a-z 0-9 . _ -", ErrBadRequest, name)
}

func unknownContract(name string) error {
	return &state.Error{
		Reason: state.ReasonContractAbsent, Message: fmt.Sprintf("no contract %q", name), Remedy: "see: swarmctl list contracts",
	}
}
