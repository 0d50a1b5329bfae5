package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/nonce"
	"github.com/swarmd/swarmd/internal/rpc/permit"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// asking is a request that changes the swarm.
type asking interface {
	proto.Message
	GetOrder() *swarmv1.Order
}

// askings returns an empty request of each method that an operator signs.
func askings() map[string]asking {
	all := map[string]asking{}
	for _, m := range []asking{
		&swarmv1.CreateContractRequest{}, &swarmv1.ResetContractRequest{}, &swarmv1.DeleteContractRequest{}, &swarmv1.ForgetNodeRequest{},
		&swarmv1.BanNodeRequest{}, &swarmv1.UnbanNodeRequest{}, &swarmv1.AdmitNodeRequest{}, &swarmv1.InviteNodeRequest{},
		&swarmv1.PauseContractRequest{}, &swarmv1.ResumeContractRequest{}, &swarmv1.EndContractRequest{}, &swarmv1.SetRightsRequest{},
	} {
		all[methodOf(m)] = m
	}
	for _, m := range tasks.Asked() {
		all[methodOf(m)] = m
	}
	return all
}

// methodOf names the method that a request is of, as orders do.
func methodOf(m proto.Message) string {
	return strings.TrimSuffix(string(m.ProtoReflect().Descriptor().Name()), "Request")
}

// orders carries out what operators sign.
type orders struct {
	*shared

	nonces  *nonce.Table // by the SN that passes them on
	carried carriedOrders
}

// challengeOperator gives an operator a nonce. An SN that asks without end pushes out only those that it has asked for, and an
// operator only its own among them.
func (s *orders) challengeOperator(operator Caller) *swarmv1.ChallengeResponse {
	head := s.cfg.Core.View().LedgerHead()
	return &swarmv1.ChallengeResponse{
		Nonce: s.nonces.IssueAt(operator.via, operator.ID.String(), head), LedgerLength: head.Length, LedgerHead: head.Hash,
	}
}

// order carries out what an operator asks for, after a look at its form. Whether it is genuine Vet finds out.
func (s *orders) order(ctx context.Context, m asking) (state.Result, error) {
	return s.orderBy(ctx, m, s.propose)
}

// View is for services that are packages of their own, as are Order, Follow, Speaker and Asker.
func (s *orders) View() *state.State { return s.cfg.Core.View() }

// Speaker is speaker.
func (s *orders) Speaker(ctx context.Context) string { return speaker(ctx) }

// Asker is callerID.
func (s *orders) Asker(ctx context.Context) (identity.ID, error) { return callerID(ctx) }

// Order is order.
func (s *orders) Order(ctx context.Context, m tasks.Asking) error {
	_, err := s.order(ctx, m)
	return err
}

// setRights is order for the service of rights.
func (s *orders) setRights(ctx context.Context, m *swarmv1.SetRightsRequest) error {
	return s.Order(ctx, m)
}

// orderBy is order by another way than to propose. An order that was carried out is no failure, though the leader could not say
// so before it lost its leadership, and a second try finds its nonce used up or nothing left to do.
func (s *orders) orderBy(
	ctx context.Context, m asking, propose func(context.Context, state.Command) (state.Result, error),
) (state.Result, error) {
	signed, o, err := readOrder(m)
	if err != nil {
		return state.Result{}, err
	}
	var res state.Result
	c, err := commandOf(s.cfg.Core.View(), signed, o, s.nowMS())
	if err == nil {
		res, err = propose(ctx, c)
	}
	if err == nil || s.cfg.Ledger == nil || errors.Is(err, consensus.ErrNotLeader) { // The next leader is asked.
		return res, err
	}
	within, cancel := context.WithTimeout(ctx, seeWithin)
	defer cancel()
	if s.cfg.Ledger.Barrier(within) != nil {
		return res, err
	}
	done, ok := s.carried.find(o, s.cfg.Core.View().LedgerHead().Length, s.cfg.Ledger.LedgerAfter)
	if !ok {
		return res, err
	}
	s.cfg.Log.InfoContext(ctx, "an order was carried out, though it was answered otherwise", "order", o.Method, "answer", err)
	return state.Result{Changed: true, Contract: done.Contract, Run: done.Run}, nil
}

// carriedOrders knows the orders that this SN's ledger carries. An operator whose orders are rejected has it read each record once.
type carriedOrders struct {
	mu     sync.Mutex
	orders ledger.Orders
}

func (c *carriedOrders) find(o *ledger.Order, length uint64, read func(n uint64) ([]byte, error)) (ledger.Carried, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.orders.Find(o, length, read)
}

// readOrder returns what was signed of a request, which must be the same.
func readOrder(m asking) (asking, *ledger.Order, error) {
	w := m.GetOrder()
	if len(w.GetSignature()) == 0 {
		return nil, nil, fmt.Errorf("%w: %s", ErrOrderMissing, methodOf(m))
	}
	o := &ledger.Order{
		Method: methodOf(m), Request: w.GetRequest(), AskedMS: w.GetAskedUnixMs(), Nonce: w.GetNonce(),
		Witnessed: ledger.Witness{Length: w.GetLedgerLength(), Hash: w.GetLedgerHead()}, Signature: w.GetSignature(), Chain: w.GetChain(),
	}
	signed, err := readAsking(o)
	if err != nil {
		return nil, nil, err
	}
	plain := proto.CloneOf(m)
	plain.ProtoReflect().Clear(plain.ProtoReflect().Descriptor().Fields().ByName("order"))
	if !proto.Equal(plain, signed) {
		return nil, nil, fmt.Errorf("%w: another request than this was signed", ErrOrderRefused)
	}
	return signed, o, nil
}

// readAsking reads the request that was signed. It has one form only, so that the ledger keeps the bytes.
func readAsking(o *ledger.Order) (asking, error) {
	if err := state.CheckOrder(o); err != nil {
		return nil, err
	}
	if again, err := json.Marshal(o.Request); err != nil || !bytes.Equal(again, o.Request) {
		return nil, fmt.Errorf("%w: the signed request has blanks, or characters that are to be escaped", ErrBadRequest)
	}
	m := askings()[o.Method]
	if m == nil {
		return nil, fmt.Errorf("%w: nobody signs for method %.40q", ErrBadRequest, o.Method)
	}
	if err := protojson.Unmarshal(o.Request, m); err != nil {
		return nil, fmt.Errorf("%w: the signed request: %w", ErrBadRequest, err)
	}
	if m.GetOrder() != nil {
		return nil, fmt.Errorf("%w: an order within an order", ErrBadRequest)
	}
	return m, nil
}

// commandOf makes the command of a signed request.
func commandOf(view *state.State, m asking, o *ledger.Order, atMS int64) (state.Command, error) {
	switch m := m.(type) {
	case *swarmv1.CreateContractRequest:
		rules, err := rulesFromProto(m.GetRules())
		return state.CreateContract{Contract: m.GetContract(), Rules: rules, AtMS: atMS, Order: o}, err
	case *swarmv1.ResetContractRequest:
		return state.ResetContract{Contract: m.GetContract(), Run: m.GetRun(), Force: m.GetForce(), AtMS: atMS, Order: o}, nil
	case *swarmv1.DeleteContractRequest:
		return state.DeleteContract{Contract: m.GetContract(), Run: m.GetRun(), Force: m.GetForce(), AtMS: atMS, Order: o}, nil
	case *swarmv1.PauseContractRequest:
		return state.PauseContract{Contract: m.GetContract(), Run: m.GetRun(), AtMS: atMS, Order: o}, nil
	case *swarmv1.ResumeContractRequest:
		return state.ResumeContract{HaltOrder: state.HaltOrder{Contract: m.GetContract(), Run: m.GetRun(), AtMS: atMS, Order: o}, KeepPace: true}, nil
	case *swarmv1.EndContractRequest:
		return state.EndContract{Contract: m.GetContract(), Run: m.GetRun(), AtMS: atMS, Order: o}, nil
	case *swarmv1.ForgetNodeRequest:
		if view.Nodes[m.GetName()] == nil && !expected(view, m.GetName()) {
			return nil, unknownNode(m.GetName())
		}
		return state.ForgetNode{Node: m.GetName(), AtMS: atMS, Order: o}, nil
	case *swarmv1.BanNodeRequest:
		peerID, err := toBan(view, m.GetName())
		return state.BanNode{PeerID: peerID, Reason: spoken(m.GetReason(), state.MaxBanReason), By: o.By, AtMS: atMS, Order: o}, err
	case *swarmv1.UnbanNodeRequest:
		peerID, err := toUnban(view, m.GetName())
		return state.UnbanNode{PeerID: peerID, AtMS: atMS, Order: o}, err
	case *swarmv1.AdmitNodeRequest:
		return state.AdmitNode{Node: m.GetName(), PeerID: m.GetPeerId(), By: o.By, AtMS: atMS, Order: o}, nil
	case *swarmv1.InviteNodeRequest:
		return state.InviteNode{
			Node: m.GetName(), SPIFFEID: m.GetSpiffeId(), Key: m.GetKey(), ExpiresMS: m.GetExpiresUnixMs(), By: o.By, AtMS: atMS, Order: o,
		}, nil
	case *swarmv1.SetRightsRequest:
		return permit.SetCommand(m, o, atMS)
	}
	if c, err := tasks.Command(view, m, o, atMS); c != nil || err != nil {
		return c, err
	}
	return nil, fmt.Errorf("%w: nobody signs for %s", ErrBadRequest, methodOf(m))
}

// Vet is for consensus.Config: see orders.vet.
func (s *Server) Vet(c state.Command) (state.Command, error) { return s.orders.vet(c) }

// vet judges on the leader what is to be proposed: what only an operator may ask for is made anew from
// the operator's own words, so that the SN that passes it on can change nothing of it.
func (s *orders) vet(c state.Command) (state.Command, error) {
	if fetch, ok := c.(state.RecordFetch); ok {
		return c, s.vetFetch(fetch)
	}
	ordered, ok := c.(state.Ordered)
	if !ok {
		return c, nil
	}
	return s.vetOrder(ordered)
}

func (s *orders) vetOrder(c state.Ordered) (state.Command, error) {
	if c.OrderOf() == nil {
		return nil, fmt.Errorf("%w: %s", ErrOrderMissing, c.Type())
	}
	o := *c.OrderOf()
	signed, err := readAsking(&o)
	if err != nil {
		return nil, err
	}
	view := s.cfg.Core.View()
	if o.By, err = s.proveOrder(view.SwarmID, &o); err != nil {
		return nil, err
	}
	if err := s.permits.Check(view, o.By, o.Method, signed); err != nil {
		return nil, err
	}
	given, ok := s.nonces.Take(o.Nonce)
	if !ok || given.Head.Length != o.Witnessed.Length || given.Head.Hash != o.Witnessed.Hash {
		return nil, ErrNonceRefused
	}
	return commandOf(view, signed, &o, s.nowMS())
}

// proveOrder returns the SPIFFE ID of the operator or SL whose SVID, as this SN's trust bundle has it now, signed the order.
func (s *orders) proveOrder(swarmID string, o *ledger.Order) (string, error) {
	id, err := identity.ProveOrder(s.cfg.Source, identity.Order{
		SwarmID: swarmID, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
	}, o.Chain, o.Signature, permit.Signers(o.Method)...)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOrderRefused, err)
	}
	return id.String(), nil
}
