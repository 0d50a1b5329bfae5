package rpc_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// draft is an order in the making.
type draft struct {
	swarm, method string
	signer        identity.Source
	order         *swarmv1.Order
}

// draft takes a nonce for a request.
func (p *peer) draft(m proto.Message) (*draft, error) {
	p.swarm.t.Helper()
	challenge, err := p.nodes().Challenge(p.swarm.t.Context(), with(p, &swarmv1.ChallengeRequest{}))
	if err != nil {
		return nil, err
	}
	text := must(protojson.MarshalOptions{UseProtoNames: true}.Marshal(m))(p.swarm.t)
	return &draft{swarm: swarmID, method: strings.TrimSuffix(string(m.ProtoReflect().Descriptor().Name()), "Request"), signer: p.source, order: &swarmv1.Order{
		Request: must(json.Marshal(json.RawMessage(text)))(p.swarm.t), Nonce: challenge.Msg.GetNonce(),
		LedgerLength: challenge.Msg.GetLedgerLength(), LedgerHead: challenge.Msg.GetLedgerHead(), AskedUnixMs: 7,
	}}, nil
}

// sign signs it.
func (d *draft) sign(t testing.TB) *swarmv1.Order {
	t.Helper()
	svid := must(d.signer.GetX509SVID())(t)
	o := d.order
	o.Chain = identity.RawChain(svid)
	o.Signature = must(identity.SignWithSVID(svid, identity.OrderMessage(identity.Order{
		SwarmID: d.swarm, Method: d.method, Request: o.GetRequest(), Nonce: o.GetNonce(), Ledger: o.GetLedgerHead(), Length: o.GetLedgerLength(),
		AskedMS: o.GetAskedUnixMs(),
	})))(t)
	return o
}

// signed is a request as an operator sends it; without a leader it goes unsigned.
func signed[T any](p *peer, m *T) *connect.Request[T] {
	p.swarm.t.Helper()
	msg := any(m).(proto.Message)
	if d, err := p.draft(msg); err == nil {
		putOrder(msg, d.sign(p.swarm.t))
	}
	return with(p, m)
}

func putOrder(m proto.Message, o *swarmv1.Order) {
	r := m.ProtoReflect()
	r.Set(r.Descriptor().Fields().ByName("order"), protoreflect.ValueOfMessage(o.ProtoReflect()))
}

// TestOrdersAreHeldToTheirSignature: what an operator did not sign, for this swarm, now, and with a valid SVID, is not done.
func TestOrdersAreHeldToTheirSignature(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	stranger := must(must(rpctest.NewAuthority("hospital.example"))(t).Issue("/swarm/swci", time.Hour))(t)
	short := must(s.authority.Issue("/swarm/swci", -time.Second))(t)
	var used *swarmv1.Order
	for _, tt := range []struct {
		name, reason string
		forge        func(d *draft) *swarmv1.Order
	}{
		{"unsigned", "ORDER_MISSING", func(*draft) *swarmv1.Order { return nil }},
		{"half", "ORDER_MISSING", func(d *draft) *swarmv1.Order { d.sign(t).Signature = nil; return d.order }},
		{"honest", "", func(d *draft) *swarmv1.Order { used = proto.CloneOf(d.sign(t)); return d.order }},
		{"a second time", "NONCE_REFUSED", func(*draft) *swarmv1.Order { return used }},
		{"another's nonce", "NONCE_REFUSED", func(d *draft) *swarmv1.Order { d.order.Nonce[0] ^= 1; return d.sign(t) }},
		{"another ledger", "NONCE_REFUSED", func(d *draft) *swarmv1.Order {
			d.order.LedgerLength, d.order.LedgerHead = 9, strings.Repeat("a", 64)
			return d.sign(t)
		}},
		{"another swarm's", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.swarm = "0bad"; return d.sign(t) }},
		{"another method's", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.method = "CreateContract"; return d.sign(t) }},
		{"another request's", "ORDER_REFUSED", func(d *draft) *swarmv1.Order {
			d.order.Request = []byte(`{"contract":"other"}`)
			return d.sign(t)
		}},
		{"changed afterwards", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.sign(t).AskedUnixMs++; return d.order }},
		{"with blanks", "BAD_REQUEST", func(d *draft) *swarmv1.Order {
			d.order.Request = append(d.order.Request, ' ')
			return d.sign(t)
		}},
		{"of an SL", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.signer = s.source("/swarm/sl"); return d.sign(t) }},
		{"of another authority", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.signer = stranger; return d.sign(t) }},
		{"of an SVID that has ended", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.signer = short; return d.sign(t) }},
		{"without a chain", "ORDER_REFUSED", func(d *draft) *swarmv1.Order { d.sign(t).Chain = nil; return d.order }},
		{"with a long chain", "BAD_COMMAND", func(d *draft) *swarmv1.Order {
			d.sign(t).Chain = [][]byte{make([]byte, state.MaxChainBytes+1)}
			return d.order
		}},
	} {
		req := &swarmv1.ResetContractRequest{Contract: state.DefaultContract}
		d := must(p.draft(req))(t)
		req.Order = tt.forge(d)
		before := s.core.View()
		_, err := p.contracts().ResetContract(t.Context(), with(p, req))
		if tt.reason != "" {
			wantReason(t, tt.name, err, tt.reason)
			if s.core.View() != before {
				t.Errorf("%s: it was done", tt.name)
			}
		} else if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
	}
}

// TestAnSNCanChangeNothingOfAnOrder: the leader makes the command from what the operator signed, whatever a follower makes
// of it.
func TestAnSNCanChangeNothingOfAnOrder(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci/dr-who")
	s.as("/swarm/sl").register(t, "sl-a", nodeKey(t))
	s.as("/swarm/sl").register(t, "sl-b", nodeKey(t))
	d := must(p.draft(&swarmv1.BanNodeRequest{Name: "sl-a", Reason: "copied"}))(t)
	w := d.sign(t)
	o := &ledger.Order{
		By: "spiffe://hospital.example/swarm/swci/somebody", Method: d.method, Request: w.GetRequest(), AskedMS: w.GetAskedUnixMs(),
		Nonce: w.GetNonce(), Signature: w.GetSignature(), Chain: w.GetChain(),
	}
	c, err := s.server.Vet(state.BanNode{PeerID: s.core.View().Nodes["sl-b"].PeerID, Reason: "other", By: "x", AtMS: 1, Order: o})
	if err != nil {
		t.Fatal(err)
	}
	ban, ok := c.(state.BanNode)
	if !ok || ban.PeerID != s.core.View().Nodes["sl-a"].PeerID || ban.Reason != "copied" || ban.AtMS < 1000 ||
		ban.By != "spiffe://hospital.example/swarm/swci/dr-who" || ban.Order.By != ban.By {
		t.Errorf("the leader proposes %+v", c)
	}
	for _, c := range []state.Command{
		state.CreateContract{Contract: "c"},
		state.ResetContract{Contract: "c"},
		state.DeleteContract{Contract: "c"},
		state.ForgetNode{Node: "sl-a"},
		state.BanNode{PeerID: "x"},
		state.UnbanNode{PeerID: "x"},
		state.AdmitNode{Node: "sn-1", PeerID: "x"},
		state.InviteNode{Node: "sn-1"},
		state.PauseContract{Contract: "c"},
		state.ResumeContract{HaltOrder: state.HaltOrder{Contract: "c"}, KeepPace: true},
		state.EndContract{Contract: "c"},
		state.CreateTask{Task: "t"},
		state.EditTask{Task: "t"},
		state.FinaliseTask{Task: "t"},
		state.DeleteTask{Task: "t"},
		state.CreateTaskrunner{Taskrunner: "t"},
		state.ResetTaskrunner{Taskrunner: "t"},
		state.DeleteTaskrunner{Taskrunner: "t"},
		state.AssignTask{},
		state.CancelAssignment{Assignment: "7"},
	} {
		if _, err := s.server.Vet(c); rpc.ReasonOf(err) != "ORDER_MISSING" {
			t.Errorf("%s of an SN's own making: %v", c.Type(), err)
		}
	}
	if _, err := s.server.Vet(state.CancelPlan{}); err != nil {
		t.Errorf("a command that nobody signs: %v", err)
	}
}

// TestOrdersStandInTheLedger: with who asked, in words that verify against the SVID in the record.
func TestOrdersStandInTheLedger(t *testing.T) {
	s := newSwarm(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	p := s.as("/swarm/swci/dr-who")
	must(create(t, p, &swarmv1.Rules{MinPeers: 2, Export: true}))(t)
	must(create(t, p, &swarmv1.Rules{MinPeers: 2, Export: true}))(t) // changes nothing
	must(p.contracts().ResetContract(t.Context(), signed(p, &swarmv1.ResetContractRequest{Contract: "study"})))(t)
	key := nodeKey(t)
	s.as("/swarm/sl").register(t, "sl-a", key)
	must(p.ban(t.Context(), "sl-a", "copied"))(t)
	if err := p.unban(t.Context(), "sl-a"); err != nil {
		t.Fatal(err)
	}
	must(p.nodes().ForgetNode(t.Context(), signed(p, &swarmv1.ForgetNodeRequest{Name: "sl-a"})))(t)
	must(p.contracts().DeleteContract(t.Context(), signed(p, &swarmv1.DeleteContractRequest{Contract: "study"})))(t)
	var kinds []string
	for _, line := range s.core.Records() {
		r, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		var o *ledger.Order
		switch b := body.(type) {
		case ledger.Rules:
			o = b.Order
			if !strings.Contains(string(o.Request), `"export":true`) {
				t.Errorf("the rules are not in %s", line)
			}
		case ledger.Reset:
			o = b.Order
		case ledger.Ban:
			o = b.Order
		case ledger.Unban:
			o = b.Order
		case ledger.Forget:
			o = b.Order
		case ledger.Deleted:
			o = b.Order
		default:
			continue
		}
		kinds = append(kinds, r.Kind)
		leaf := must(x509.ParseCertificate(o.Chain[0]))(t)
		msg := identity.OrderMessage(identity.Order{
			SwarmID: swarmID, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
		})
		if err := identity.VerifySVIDSignature(leaf, msg, o.Signature); err != nil || o.By != "spiffe://hospital.example/swarm/swci/dr-who" || o.Witnessed.Length == 0 {
			t.Errorf("%s by %s: %v", r.Kind, o.By, err)
		}
	}
	if got := strings.Join(kinds, " "); got != "rules reset ban unban forget deleted" {
		t.Errorf("recorded: %s", got)
	}
}

// TestAFetchIsItsHoldersWord: an SN can't make up that a node let a model out.
func TestAFetchIsItsHoldersWord(t *testing.T) {
	s := newSwarm(t)
	key := nodeKey(t)
	s.as("/swarm/sl").register(t, "sl-a", key)
	fetch := state.RecordFetch{
		Contract: "study", Run: 1, Round: 4, Digest: strings.Repeat("a", 64), By: "spiffe://hospital.example/swarm/swci/dr-who", Node: "sl-a", SeenMS: 7,
	}
	fetch.Signature = must(key.Sign(identity.FetchMessage(identity.Fetch{
		SwarmID: swarmID, Node: fetch.Node, Contract: fetch.Contract, Run: fetch.Run, Round: fetch.Round, Model: fetch.Digest, By: fetch.By, AtMS: fetch.SeenMS,
	})))(t)
	if _, err := s.server.Vet(fetch); err != nil {
		t.Errorf("signed: %v", err)
	}
	for name, change := range map[string]func(f *state.RecordFetch){
		"another operator": func(f *state.RecordFetch) { f.By += "-2" },
		"another round":    func(f *state.RecordFetch) { f.Round++ },
		"unsigned":         func(f *state.RecordFetch) { f.Signature = nil },
	} {
		forged := fetch
		change(&forged)
		if _, err := s.server.Vet(forged); rpc.ReasonOf(err) != "SIGNATURE_REFUSED" {
			t.Errorf("%s: %v", name, err)
		}
	}
	fetch.By = "spiffe://hospital.example/swarm/sl/x"
	if _, err := s.server.Vet(fetch); rpc.ReasonOf(err) != "BAD_REQUEST" {
		t.Errorf("by no operator: %v", err)
	}
}

// interrupted is a core whose leader changes behind what it has committed: its answer is lost, and the next leader, which is asked
// again, knows nothing of the nonce.
type interrupted struct{ *rpctest.Core }

func (c interrupted) Propose(ctx context.Context, cmd state.Command) (state.Result, error) {
	res, err := c.Core.Propose(ctx, cmd)
	if o, ok := cmd.(state.Ordered); err == nil && ok && o.OrderOf() != nil {
		return c.Core.Propose(ctx, cmd)
	}
	return res, err
}

// ReadLedger implements rpc.Ledger.
func (c interrupted) ReadLedger(uint64) ([]byte, error) { return nil, nil }

// LedgerAfter implements rpc.Ledger.
func (c interrupted) LedgerAfter(n uint64) ([]byte, error) {
	lines := c.Records()
	return slices.Concat(lines[min(n, uint64(len(lines))):]...), nil
}

// Barrier implements rpc.Ledger.
func (c interrupted) Barrier(context.Context) error { return nil }

// TestOrdersAreDoneThoughTheLeaderChanged: forget and unban said then that there is no such node. Who gave up on an SN and sends
// the same order to another, which knows of it already, hears the same.
func TestOrdersAreDoneThoughTheLeaderChanged(t *testing.T) {
	s := startSwarm(t, rpc.Config{}, func(cfg *rpc.Config) {
		cfg.Core = interrupted{cfg.Core.(*rpctest.SN).Core}
		cfg.Ledger = cfg.Core.(interrupted)
	})
	must(s.core.Propose(t.Context(), state.BundleOf("hospital.example", [][]byte{{1}}, 1)))(t)
	s.as("/swarm/sl").register(t, "sl-a", nodeKey(t))
	key := s.core.View().Nodes["sl-a"].PeerID
	p := s.as("/swarm/swci")
	ban := signed(p, &swarmv1.BanNodeRequest{Name: "sl-a", Reason: "copied"})
	forget := signed(p, &swarmv1.ForgetNodeRequest{Name: "sl-a"})
	unban := signed(p, &swarmv1.UnbanNodeRequest{Name: key})
	byName := signed(p, &swarmv1.UnbanNodeRequest{Name: "sl-a"})
	reset := signed(p, &swarmv1.ResetContractRequest{Contract: state.DefaultContract})
	for range 2 {
		if res := must(p.nodes().BanNode(t.Context(), ban))(t); res.Msg.GetBan().GetPeerId() != key {
			t.Errorf("banned %v", res.Msg)
		}
	}
	for range 2 {
		must(p.nodes().ForgetNode(t.Context(), forget))(t)
	}
	for range 2 {
		must(p.nodes().UnbanNode(t.Context(), byName))(t)
	}
	if v := s.core.View(); v.Nodes["sl-a"] != nil || v.Banned(key) != nil {
		t.Error("nothing was done")
	}
	for range 2 {
		if res := must(p.contracts().ResetContract(t.Context(), reset))(t); res.Msg.GetRun() != 2 {
			t.Errorf("reset to run %d, want 2", res.Msg.GetRun())
		}
	}
	// An order of which nothing is known stays refused: the nonce of one that is used up is no permit.
	unban.Msg.Order.Nonce = byName.Msg.GetOrder().GetNonce()
	if _, err := p.nodes().UnbanNode(t.Context(), unban); err == nil {
		t.Error("an order with another's nonce is done")
	}
	_, err := p.nodes().ForgetNode(t.Context(), signed(p, &swarmv1.ForgetNodeRequest{Name: "sl-a"}))
	wantReason(t, "forgotten a second time", err, "NODE_UNKNOWN")
}

// counted is a ledger that counts the bytes that are read of it.
type counted struct {
	interrupted
	read *atomic.Int64
}

// LedgerAfter implements rpc.Ledger.
func (c counted) LedgerAfter(n uint64) ([]byte, error) {
	b, err := c.interrupted.LedgerAfter(n)
	c.read.Add(int64(len(b)))
	return b, err
}

// TestRejectedOrdersDoNotReadTheLedgerAgain: an operator sends an order that is rejected again and again, over the ledger as it was at
// its start.
func TestRejectedOrdersDoNotReadTheLedgerAgain(t *testing.T) {
	var read atomic.Int64
	s := startSwarm(t, rpc.Config{}, func(cfg *rpc.Config) {
		cfg.Ledger = counted{interrupted{cfg.Core.(*rpctest.SN).Core}, &read}
	})
	must(s.core.Propose(t.Context(), state.BundleOf("hospital.example", [][]byte{{1}}, 1)))(t)
	p := s.as("/swarm/swci")
	order := signed(p, &swarmv1.ForgetNodeRequest{Name: "sl-1"})
	for i := range 20 {
		s.as("/swarm/sl").register(t, fmt.Sprint("sl-", i), nodeKey(t))
	}
	send := func(reason string) {
		t.Helper()
		_, err := p.nodes().ForgetNode(t.Context(), order)
		wantReason(t, "forget a node that lives", err, reason)
	}
	send(state.ReasonNodeLive)
	once := read.Load()
	for range 20 {
		send("NONCE_REFUSED")
	}
	if all := read.Load(); once == 0 || all != once {
		t.Errorf("%d bytes were read for one rejected order, %d for 21", once, all)
	}
}
