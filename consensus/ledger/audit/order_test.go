package audit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
)

// operator is somebody with swarmctl.
type operator struct {
	t    *testing.T
	id   string
	svid *x509svid.SVID
}

func newOperator(t *testing.T, a *authority) *operator { return svidOf(t, a, "swci/dr-who") }

func svidOf(t *testing.T, a *authority, path string) *operator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := spiffeid.RequireFromString("spiffe://a.example/swarm/" + path)
	leaf := a.issue(t, &x509.Certificate{URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature}, &key.PublicKey)
	return &operator{t, id.String(), &x509svid.SVID{ID: id, Certificates: []*x509.Certificate{leaf}, PrivateKey: key}}
}

// asks signs a request on the ledger as it is.
func (o *operator) asks(b *builder, m proto.Message) *ledger.Order {
	o.t.Helper()
	text, err := protojson.Marshal(m)
	if err == nil {
		text, err = json.Marshal(json.RawMessage(text))
	}
	if err != nil {
		o.t.Fatal(err)
	}
	order := &ledger.Order{
		By: o.id, Method: strings.TrimSuffix(string(m.ProtoReflect().Descriptor().Name()), "Request"), Request: text, AskedMS: start.UnixMilli(),
		Nonce: make([]byte, 32), Witnessed: ledger.Witness{Length: b.head.Length, Hash: b.head.Hash}, Chain: identity.RawChain(o.svid),
	}
	_, _ = rand.Read(order.Nonce) // never fails
	o.sign(order)
	return order
}

func (o *operator) sign(order *ledger.Order) {
	o.t.Helper()
	var err error
	order.Signature, err = identity.SignWithSVID(o.svid, identity.OrderMessage(identity.Order{
		SwarmID: swarmID, Method: order.Method, Request: order.Request, Nonce: order.Nonce, Ledger: order.Witnessed.Hash, Length: order.Witnessed.Length,
		AskedMS: order.AskedMS,
	}))
	if err != nil {
		o.t.Fatal(err)
	}
}

// TestOrdersThatNobodyGave: what a leader that lies could append.
func TestOrdersThatNobodyGave(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	op := newOperator(t, ca)
	for _, tt := range []struct {
		name, want string
		body       func(b *builder, first *ledger.Order) ledger.Body
	}{
		{"signed", "", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Reset{Contract: study, Run: 2, Order: op.asks(b, &swarmv1.ResetContractRequest{Contract: study})}
		}},
		{"not signed after others were", "no operator signed it, and since record 3", func(*builder, *ledger.Order) ledger.Body {
			return ledger.Reset{Contract: study, Run: 2}
		}},
		{"done twice", "order.nonce: it was used in record 3", func(_ *builder, first *ledger.Order) ledger.Body {
			return ledger.Rules{Contract: study, Run: 1, Order: first}
		}},
		{"another's request", "the operator asked to forget", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Forget{Node: "sl-0", PeerID: "x", Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: "sl-1"})}
		}},
		{"another ban", "the operator asked to ban", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Ban{PeerID: "x", Node: "sl-0", By: op.id, Order: op.asks(b, &swarmv1.BanNodeRequest{Name: "sl-1"})}
		}},
		{"of another method", "order.method", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Reset{Contract: study, Run: 2, Order: op.asks(b, &swarmv1.CreateContractRequest{Contract: study})}
		}},
		{"of a run that is over", "the operator asked to reset run 7", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Reset{Contract: study, Run: 2, Order: op.asks(b, &swarmv1.ResetContractRequest{Contract: study, Run: 7})}
		}},
		{"a pause", "", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Pause{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.PauseContractRequest{Contract: study, Run: 1})}
		}},
		{"a pause that nobody signed", "order: it is missing", func(*builder, *ledger.Order) ledger.Body { return ledger.Pause{Contract: study, Run: 1} }},
		{"a pause that was asked as an end", "order.method", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Pause{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.EndContractRequest{Contract: study})}
		}},
		{"a pause of another contract", `the operator asked for run 0 of contract "other"`, func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Pause{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.PauseContractRequest{Contract: "other"})}
		}},
		{"a pause of another run", "contract study is in run 1, not 2", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Pause{Contract: study, Run: 2, Order: op.asks(b, &swarmv1.PauseContractRequest{Contract: study})}
		}},
		{"the resumption of what is not paused", "contract study is not paused", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Resume{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.ResumeContractRequest{Contract: study})}
		}},
		{"an end", "", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.End{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.EndContractRequest{Contract: study})}
		}},
		{"a deletion", "", func(b *builder, _ *ledger.Order) ledger.Body { return op.deletes(b, 1) }},
		{"a deletion that nobody signed", "order: it is missing", func(*builder, *ledger.Order) ledger.Body { return ledger.Deleted{Contract: study, Run: 1} }},
		{"a deletion of another run", "contract study is in run 1, not 2", func(b *builder, _ *ledger.Order) ledger.Body { return op.deletes(b, 2) }},
		{"a deletion of another contract", `the operator asked to delete run 0 of contract "other"`, func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Deleted{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.DeleteContractRequest{Contract: "other"})}
		}},
		{"a deletion that is made out to be none", "nobody orders what goes by itself", func(b *builder, _ *ledger.Order) ledger.Body {
			d := op.deletes(b, 1)
			d.Expired = true
			return d
		}},
		{"a contract that operators made and nobody deleted", "was used, or made by an operator", func(*builder, *ledger.Order) ledger.Body {
			return ledger.Deleted{Contract: study, Run: 1, Expired: true}
		}},
		{"of an SL", "is no operator", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Reset{Contract: study, Run: 2, Order: svidOf(t, ca, "sl/sl-0").asks(b, &swarmv1.ResetContractRequest{Contract: study})}
		}},
		{"of another authority", "not an SVID by the authorities of its time", func(b *builder, _ *ledger.Order) ledger.Body {
			return ledger.Reset{Contract: study, Run: 2, Order: newOperator(t, other).asks(b, &swarmv1.ResetContractRequest{Contract: study})}
		}},
	} {
		b := &builder{t: t}
		b.add(ledger.Swarm{SwarmID: swarmID})
		b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
		first := op.asks(b, &swarmv1.CreateContractRequest{Contract: study, Rules: &swarmv1.Rules{Export: true}})
		b.add(ledger.Rules{Contract: study, Run: 1, Order: first})
		b.add(tt.body(b, first))
		r := verify(t, b.bytes, optionsOf(ca))
		switch {
		case tt.want == "" && (!r.Good() || r.Orders != 2 || len(r.Contracts) != 1 || !r.Contracts[0].Rules[0].Rules.GetExport() || r.Unwitnessed != 1):
			t.Errorf("%s: %+v", tt.name, r)
		case tt.want != "" && (r.Good() || !strings.Contains(r.Problems[0].Error(), tt.want)):
			t.Errorf("%s: %v", tt.name, r.Problems)
		}
	}
}

// TestLedgersOfBeforeOrdersWereSigned stay good, and it is said how much nobody signed.
func TestLedgersOfBeforeOrdersWereSigned(t *testing.T) {
	ca := newAuthority(t)
	b := &builder{t: t}
	b.add(ledger.Swarm{SwarmID: swarmID})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
	b.add(ledger.Ban{PeerID: "x", By: "spiffe://a.example/swarm/swci"})
	b.add(ledger.Unban{PeerID: "x"})
	b.add(ledger.Reset{Contract: study, Run: 2})
	if r := verify(t, b.bytes, optionsOf(ca)); !r.Good() || r.Unsigned != 3 || r.Orders != 0 {
		t.Errorf("%+v", r)
	}
}
