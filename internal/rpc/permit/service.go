package permit

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/policy/rights"
	"github.com/swarmd/swarmd/internal/policy/sentence"
)

// Replica is the SN's copy of the swarm's state.
type Replica interface {
	// View returns the state as applied here. It is immutable.
	View() *state.State
}

// Service implements swarmv1connect.RightsServiceHandler.
type Service struct {
	rules   *Rules
	replica Replica
	caller  func(ctx context.Context) (identity.ID, error)
	order   func(ctx context.Context, m *swarmv1.SetRightsRequest) error
}

// NewService returns the service of an SN: caller says who calls, and order carries out what an operator signs.
func NewService(rules *Rules, replica Replica, caller func(ctx context.Context) (identity.ID, error), order func(ctx context.Context, m *swarmv1.SetRightsRequest) error) *Service {
	return &Service{rules: rules, replica: replica, caller: caller, order: order}
}

// SetCommand makes the command of a signed request: the sentences in their form, as this version reads them.
func SetCommand(m *swarmv1.SetRightsRequest, o *ledger.Order, atMS int64) (state.Command, error) {
	sentences, err := rights.Canonical(m.GetSentences())
	if err != nil {
		return nil, &state.Error{Reason: state.ReasonBadCommand, Message: err.Error(), Remedy: "see docs/operations/rights.md for what sentences look like"}
	}
	return state.SetRights{Sentences: sentences, By: o.By, AtMS: atMS, Order: o}, nil
}

// GetRights shows the sentences.
func (s *Service) GetRights(context.Context, *connect.Request[swarmv1.GetRightsRequest]) (*connect.Response[swarmv1.GetRightsResponse], error) {
	return connect.NewResponse(&swarmv1.GetRightsResponse{Rights: show(s.replica.View().Rights)}), nil
}

// SetRights replaces all sentences.
func (s *Service) SetRights(ctx context.Context, req *connect.Request[swarmv1.SetRightsRequest]) (*connect.Response[swarmv1.SetRightsResponse], error) {
	if err := s.order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.SetRightsResponse{Rights: show(s.replica.View().Rights)}), nil
}

func show(r *state.Rights) *swarmv1.Rights {
	if r == nil {
		return nil
	}
	return &swarmv1.Rights{Sentences: r.Sentences, By: r.By, SetUnixMs: r.SetMS}
}

// ExplainRight says whether somebody may do something, and which sentence decides.
func (s *Service) ExplainRight(ctx context.Context, req *connect.Request[swarmv1.ExplainRightRequest]) (*connect.Response[swarmv1.ExplainRightResponse], error) {
	who, err := s.caller(ctx)
	if err == nil && req.Msg.GetSpiffeId() != "" {
		if who, err = identity.ParseIDString(req.Msg.GetSpiffeId()); err != nil {
			err = &state.Error{Reason: state.ReasonBadCommand, Message: err.Error(), Remedy: "name a SPIFFE ID, such as spiffe://DOMAIN/swarm/swci/NAME"}
		}
	}
	if err != nil {
		return nil, err
	}
	verb, resource := req.Msg.GetVerb(), req.Msg.GetResource()
	if err := rights.CheckAction(verb, resource); err != nil {
		return nil, &state.Error{Reason: state.ReasonBadCommand, Message: err.Error(), Remedy: "name a verb and a resource, such as use contracts"}
	}
	a := sentence.Action{Subject: who.String(), Verb: verb, Resource: resource, Facts: map[string]string{}}
	if fact := rights.NameOf(resource); fact != "" {
		a.Facts[fact] = req.Msg.GetName()
	}
	return connect.NewResponse(s.rules.explain(s.replica.View().Rights, who.Role(), a)), nil
}

// CheckReader holds the call of somebody who asks a host for a log to the rights.
func (s *Service) CheckReader(_ context.Context, req *connect.Request[swarmv1.CheckReaderRequest]) (*connect.Response[swarmv1.CheckReaderResponse], error) {
	m := req.Msg
	if m.GetSpiffeId() == "" {
		return nil, &state.Error{Reason: state.ReasonBadCommand, Message: "nobody is named who is to read a log", Remedy: "update the node to the version of the SNs"}
	}
	if err := s.rules.Check(s.replica.View(), m.GetSpiffeId(), "ReadLogs", &swarmv1.ReadLogsRequest{Part: m.GetPart()}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CheckReaderResponse{}), nil
}

// CheckForward holds the call of somebody who asks a host for a connection to a member of a job to the rights: it takes that to use tasks, as to
// end the job.
func (s *Service) CheckForward(_ context.Context, req *connect.Request[swarmv1.CheckForwardRequest]) (*connect.Response[swarmv1.CheckForwardResponse], error) {
	m := req.Msg
	if m.GetSpiffeId() == "" || m.GetAssignment() == "" {
		return nil, &state.Error{Reason: state.ReasonBadCommand, Message: "it is not said who is to be connected, or to what", Remedy: "update the node to the version of the SNs"}
	}
	if err := s.rules.Check(s.replica.View(), m.GetSpiffeId(), "CancelAssignment", &swarmv1.CancelAssignmentRequest{Id: m.GetAssignment()}); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CheckForwardResponse{}), nil
}

// explain judges by role first, which sentences only narrow.
func (r *Rules) explain(of *state.Rights, role identity.Role, a sentence.Action) *swarmv1.ExplainRightResponse {
	switch may, there := r.byRole(role, a); {
	case !there:
		return &swarmv1.ExplainRightResponse{Reason: fmt.Sprintf("this version has no call by which anybody can %s %s", a.Verb, a.Resource)}
	case !may:
		return &swarmv1.ExplainRightResponse{Reason: fmt.Sprintf("role %s may not %s %s, which no sentence changes", role, a.Verb, a.Resource)}
	case !person(role):
		return &swarmv1.ExplainRightResponse{Allowed: true, Reason: fmt.Sprintf("role %s may, as a node of the swarm; rights are about operators and auditors", role)}
	case of == nil:
		return &swarmv1.ExplainRightResponse{Allowed: true, Reason: fmt.Sprintf("role %s may, as nobody has set rights in this swarm", role)}
	}
	j := r.read(of).Judge(a)
	if j.Number == 0 {
		j.Why = "the rights of this swarm have no sentence that this SN understands"
	}
	return &swarmv1.ExplainRightResponse{Allowed: j.Allowed, Number: uint32(j.Number), Sentence: j.Sentence, Reason: j.Why} //nolint:gosec // at most rights.MaxSentences
}

// byRole reports whether a role may make a call that needs as much as this or more of a sentence, and whether there is any.
func (r *Rules) byRole(role identity.Role, a sentence.Action) (may, there bool) {
	for _, n := range r.needs {
		if (n.resource == a.Resource || a.Resource == sentence.AllResources) && sentence.Covers(n.verb, a.Verb) {
			there = true
			may = may || slices.Contains(n.roles, role)
		}
	}
	return may, there
}
