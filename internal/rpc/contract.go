package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/internal/rpc/nodehealth"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

// contractService shows, makes, resets and deletes contracts.
type contractService struct {
	*shared

	orders  *orders
	healths *nodehealth.Memory
}

// ListContracts returns all contracts, sorted by name.
func (s *contractService) ListContracts(ctx context.Context, _ *connect.Request[swarmv1.ListContractsRequest]) (*connect.Response[swarmv1.ListContractsResponse], error) {
	view := s.cfg.Core.View()
	out := &swarmv1.ListContractsResponse{NoQuorum: messages.NoQuorum(s.cfg.Name, s.lost(ctx))}
	for _, name := range view.ContractNames() {
		out.Contracts = append(out.Contracts, messages.Summary(view.Contracts[name]))
	}
	return connect.NewResponse(out), nil
}

// GetContractStatus tells on the leader what it alone knows, progress and what is waited for. While there is no
// leader the SN that is asked answers, and that is what is waited for.
func (s *contractService) GetContractStatus(ctx context.Context, req *connect.Request[swarmv1.GetContractStatusRequest]) (*connect.Response[swarmv1.GetContractStatusResponse], error) {
	name := req.Msg.GetContract()
	if !naming.ValidContract(name) {
		return nil, badContractName(name)
	}
	view, index := s.viewAt()
	c := view.Contracts[name]
	err := leaderlessFrom(ctx)
	if err == nil && c == nil {
		return nil, unknownContract(name)
	}
	if err == nil {
		out := messages.Status(s.cfg.Name, messages.RankedView(view, c, index), s.cfg.Lead.Status(c.Name), req.Msg.GetMost())
		out.Warnings = append(out.Warnings, s.warnings(view, c)...)
		caller, _ := callerID(ctx)
		messages.HideStatus(out, messages.Hidden(c.Rules, caller))
		return connect.NewResponse(out), nil
	}
	counted, _ := errors.AsType[*quorum.Error](err)
	if c == nil {
		return nil, err // the others may know the contract
	}
	why, todo := "the SNs have no leader: a majority of them must run", "start the SNs that are down, or mend the network between them"
	if counted != nil {
		why, todo = counted.Error(), counted.Remedy()
	}
	return connect.NewResponse(&swarmv1.GetContractStatusResponse{
		Contract: messages.RankedView(view, c, index), Waiting: why, NoQuorum: messages.NoQuorum(s.cfg.Name, counted), Explanation: []string{
			fmt.Sprintf("contract %s, run %d, is %s: the last round that SN %s knows is %d", c.Name, c.Run, c.Phase(), s.cfg.Name, c.Round()),
			why + ", as SN " + s.cfg.Name + " sees it",
			"nothing is planned or committed until then; what runs on the other side of a network split is not known here",
			"to do: " + todo,
		},
	}), nil
}

// GetHistory tells what the SN that leads has kept of rounds.
func (s *contractService) GetHistory(ctx context.Context, req *connect.Request[swarmv1.GetHistoryRequest]) (*connect.Response[swarmv1.GetHistoryResponse], error) {
	c := s.cfg.Core.View().Contracts[req.Msg.GetContract()]
	if c == nil || s.cfg.History == nil {
		return nil, unknownContract(req.Msg.GetContract())
	}
	out, err := s.cfg.History.Answer(req.Msg, c.Run)
	if err != nil {
		return nil, err
	}
	caller, _ := callerID(ctx) // nobody: all is hidden that the rule hides from anybody
	messages.ShowHistory(out, messages.Hidden(c.Rules, caller))
	return connect.NewResponse(out), nil
}

// ResetContract begins a new run.
func (s *contractService) ResetContract(ctx context.Context, req *connect.Request[swarmv1.ResetContractRequest]) (*connect.Response[swarmv1.ResetContractResponse], error) {
	res, err := s.orders.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ResetContractResponse{Run: res.Run}), nil
}

// DeleteContract removes a contract.
func (s *contractService) DeleteContract(ctx context.Context, req *connect.Request[swarmv1.DeleteContractRequest]) (*connect.Response[swarmv1.DeleteContractResponse], error) {
	name := req.Msg.GetContract()
	if !naming.ValidContract(name) {
		return nil, badContractName(name)
	}
	res, err := s.orders.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.DeleteContractResponse{Run: res.Run}), nil
}

// PauseContract has no round planned any more.
func (s *contractService) PauseContract(ctx context.Context, req *connect.Request[swarmv1.PauseContractRequest]) (*connect.Response[swarmv1.PauseContractResponse], error) {
	out, err := s.orderOf(ctx, req.Msg.GetContract(), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.PauseContractResponse{Contract: out}), nil
}

// ResumeContract ends a pause.
func (s *contractService) ResumeContract(ctx context.Context, req *connect.Request[swarmv1.ResumeContractRequest]) (*connect.Response[swarmv1.ResumeContractResponse], error) {
	out, err := s.orderOf(ctx, req.Msg.GetContract(), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ResumeContractResponse{Contract: out}), nil
}

// EndContract makes the next round the final one.
func (s *contractService) EndContract(ctx context.Context, req *connect.Request[swarmv1.EndContractRequest]) (*connect.Response[swarmv1.EndContractResponse], error) {
	out, err := s.orderOf(ctx, req.Msg.GetContract(), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.EndContractResponse{Contract: out}), nil
}

// orderOf carries out what an operator asks for of a contract, and shows the contract afterwards.
func (s *contractService) orderOf(ctx context.Context, name string, m asking) (*swarmv1.ContractView, error) {
	if !naming.ValidContract(name) {
		return nil, badContractName(name)
	}
	if _, err := s.orders.order(ctx, m); err != nil {
		return nil, err
	}
	return s.seen(name)
}

// CreateContract sets a contract's rules.
func (s *contractService) CreateContract(ctx context.Context, req *connect.Request[swarmv1.CreateContractRequest]) (*connect.Response[swarmv1.CreateContractResponse], error) {
	name := req.Msg.GetContract()
	if !naming.ValidContract(name) {
		return nil, badContractName(name)
	}
	if _, err := rulesFromProto(req.Msg.GetRules()); err != nil {
		return nil, err
	}
	out, err := s.orderOf(ctx, name, req.Msg)
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
