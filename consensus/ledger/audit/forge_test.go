package audit_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

const (
	swarmID = "5f0c"
	study   = "study"
)

// authority is a CA of the trust domain a.example.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = a.issue(t, &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, URIs: []*url.URL{{Scheme: "spiffe", Host: "a.example"}},
	}, &key.PublicKey)
	return a
}

func (a *authority) issue(t *testing.T, template *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = start.Add(-time.Hour), start.Add(time.Hour)
	if template.Subject.CommonName == "" {
		template.Subject = pkix.Name{CommonName: "test"}
	}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

var start = time.UnixMilli(1_800_000_000_000)

// node is one SL or SN with its key.
type node struct {
	name string
	key  p2pcrypto.PrivKey
	id   string
}

func newNode(t *testing.T, name string) *node {
	t.Helper()
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	return &node{name, key, id.String()}
}

// register makes a registration with an SVID of its own, in the role that the name begins with.
func (n *node) register(t *testing.T, a *authority) ledger.Registration {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	role, _, _ := strings.Cut(n.name, "-")
	id := spiffeid.RequireFromString("spiffe://a.example/swarm/" + role + "/" + n.name)
	leaf := a.issue(t, &x509.Certificate{URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature}, &key.PublicKey)
	svid := &x509svid.SVID{ID: id, Certificates: []*x509.Certificate{leaf}, PrivateKey: key}
	sig, err := identity.SignWithSVID(svid, identity.OwnershipMessage(swarmID, n.name, n.id))
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Registration{Node: n.name, Role: role, SPIFFEID: id.String(), PeerID: n.id, Signature: sig, Chain: [][]byte{leaf.Raw}}
}

// lets is the node's word that it lets a model out.
func (n *node) lets(t *testing.T, by string, run, round uint64) ledger.Fetch {
	t.Helper()
	f := ledger.Fetch{
		Contract: study, Run: run, Round: round, Model: digestOf(fmt.Sprint("model", run, round)).String(), By: by, Node: n.name, PeerID: n.id, SeenMS: start.UnixMilli(),
	}
	var err error
	f.Signature, err = n.key.Sign(identity.FetchMessage(identity.Fetch{
		SwarmID: swarmID, Node: n.name, Contract: study, Run: run, Round: round, Model: f.Model, By: by, AtMS: f.SeenMS,
	}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// entry is a record before it is chained.
type entry struct {
	atMS int64
	body ledger.Body
}

// builder makes a genuine ledger, record by record.
type builder struct {
	t       *testing.T
	entries []entry
	head    ledger.Head
	bytes   []byte
}

func (b *builder) add(body ledger.Body) {
	b.t.Helper()
	e := entry{start.UnixMilli() + int64(len(b.entries)), body}
	b.entries = append(b.entries, e)
	b.chain(e)
}

func (b *builder) chain(e entry) {
	b.t.Helper()
	line, head, err := ledger.Append(b.head, e.atMS, e.body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.head, b.bytes = head, append(b.bytes, line...)
}

func optionsOf(a *authority) audit.Options {
	return audit.Options{Authorities: []*x509.Certificate{a.cert}}
}

func digestOf(text string) merge.Digest { return merge.Sum([]byte(text)) }

// round commits a round that was planned on the ledger as it is, after which between is recorded.
func (b *builder) round(run, number, attempt uint64, nodes []*node, between ...ledger.Body) {
	b.t.Helper()
	head := b.head
	for _, x := range between {
		b.add(x)
	}
	b.add(b.merged(run, number, attempt, nodes, head))
}

// adopts has the model of a round that the ledger lacks follow as another one, signed by all who merged it but the last ones.
func (b *builder) adopts(run, last, proven, as uint64, nodes []*node, silent int) {
	b.t.Helper()
	r := b.merged(run, proven, 1, nodes, ledger.Head{Hash: digestOf("gone").String()})
	for i := len(nodes) - silent; i < len(nodes); i++ {
		r.Participants[i].Signature = nil
	}
	b.add(ledger.AdoptedRound{Round: as, Last: last, Proof: r})
}

// merged is a round that was planned on a ledger of this head.
func (b *builder) merged(run, number, attempt uint64, nodes []*node, at ledger.Head) ledger.Round {
	b.t.Helper()
	r := ledger.Round{
		Contract: study, Run: run, Round: number, Attempt: attempt, Method: "mean", Layout: digestOf("layout").String(),
		Model: digestOf(fmt.Sprint("model", run, number)).String(), State: digestOf("state").String(),
		Witnessed: ledger.Witness{Length: at.Length, Hash: at.Hash},
	}
	plan := exchange.Planned{Contract: study, Run: run, Round: number, Method: r.Method, Layout: digestOf("layout")}
	head, err := merge.ParseDigest(r.Witnessed.Hash)
	if err != nil {
		b.t.Fatal(err)
	}
	out := exchange.Outcome{
		Contract: study, Run: run, Round: number, Number: attempt, ModelDigest: digestOf(fmt.Sprint("model", run, number)),
		StateDigest: digestOf("state"), Ledger: head,
	}
	later := attempt > 1 // something contradicted, and an owner is gone: each of the others has a part of what it owned
	if later {
		r.Epoch, plan.Epoch = 1, 1
		r.Witnesses, plan.Witnesses = 2, 2
	}
	for i, n := range nodes {
		p := ledger.Participant{
			Node: n.name, PeerID: n.id, Session: "s" + n.name, Weight: uint32(i + 1), Factor: 0.5, ShardFirst: uint64(4 * i), ShardLeaves: 4,
		}
		part := exchange.Participant{
			Node: n.id, Session: p.Session, Weight: p.Weight, Factor: p.Factor, Shard: merge.Shard{First: 4 * i, Leaves: 4},
		}
		if later {
			part.Unit = n.id // of who shares its SPIFFE ID
			if i > 0 {
				p.SPIFFEID = "spiffe://a.example/swarm/sl/" + n.name
				part.Unit = p.SPIFFEID
			}
		}
		if k := 4*len(nodes) + 2*i; later {
			p.MoreShards, part.More = []ledger.LeafRun{{First: uint64(k), Leaves: 2}}, []merge.Shard{{First: k, Leaves: 2}}
		}
		r.Participants = append(r.Participants, p)
		plan.Participants = append(plan.Participants, part)
	}
	out.ShardsDigest = digestOf("shards")
	r.ShardsDigest = out.ShardsDigest.String()
	out.Plan = plan.Digest()
	for i, n := range nodes {
		out.Node = n.name
		if r.Participants[i].Signature, err = n.key.Sign(exchange.AttestationMessage(out)); err != nil {
			b.t.Fatal(err)
		}
	}
	return r
}

// TestLedgerOfBefore: one whose rounds have the digest of each shard verifies. Both files were written by the program of then.
func TestLedgerOfBefore(t *testing.T) {
	lines, err := os.ReadFile("testdata/shards.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/shards.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	o := audit.Options{Authorities: []*x509.Certificate{authority}}
	if r := verify(t, lines, o); !r.Good() || r.Rounds != 5 {
		t.Fatalf("%d rounds, problems: %v", r.Rounds, r.Problems)
	}
	// In place of the shards' digests one over them is not what was signed.
	for head, rest := (ledger.Head{}), lines; len(rest) > 0; {
		line, after, _ := ledger.CutLine(rest)
		record, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := body.(ledger.Round); ok {
			var all []merge.Digest
			for _, text := range r.Shards {
				d, _ := merge.ParseDigest(text)
				all = append(all, d)
			}
			r.Shards, r.ShardsDigest = nil, merge.Combine(all).String()
			forged, _, err := ledger.Append(head, record.AtMS, r)
			if err != nil {
				t.Fatal(err)
			}
			if got := verify(t, append(bytes.Clone(lines[:head.Bytes]), forged...), o); got.Good() {
				t.Error("a round whose participants signed each shard's digest verifies with one over all")
			}
		}
		if head, err = ledger.Follow(head, line); err != nil {
			t.Fatal(err)
		}
		rest = after
	}
}

// deletes has an operator delete the contract in a run.
func (o *operator) deletes(b *builder, run uint64) ledger.Deleted {
	return ledger.Deleted{Contract: study, Run: run, Order: o.asks(b, &swarmv1.DeleteContractRequest{Contract: study, Run: run})}
}

// genuine is a ledger with records of every kind; all but the last are some round's past.
func genuine(t *testing.T) (*builder, audit.Options) {
	t.Helper()
	old, renewed := newAuthority(t), newAuthority(t)
	nodes := []*node{newNode(t, "sl-0"), newNode(t, "sl-1"), newNode(t, "sl-2"), newNode(t, "sl-3")}
	b := &builder{t: t}
	sns := []*node{newNode(t, "sn-0"), newNode(t, "sn-1")}
	b.add(ledger.Swarm{SwarmID: swarmID, Admit: "operator", Admitted: []ledger.Admitted{{Node: "sn-0", PeerID: sns[0].id}}})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{old.cert.Raw}})
	for _, n := range append([]*node{sns[0]}, nodes[:3]...) {
		b.add(n.register(t, old))
	}
	op := newOperator(t, old)
	b.add(ledger.Admission{Node: "sn-1", PeerID: sns[1].id, By: op.id, Order: op.asks(b, &swarmv1.AdmitNodeRequest{Name: "sn-1", PeerId: sns[1].id})})
	b.add(sns[1].register(t, old))
	sn2 := newNode(t, "sn-2")
	b.add(op.invites(b, 1, "sn-2", time.Hour))
	b.add(op.invites(b, 2, "sn-3", time.Hour))
	b.add(claims(sn2, 1, op.id))
	b.add(sn2.register(t, old))
	b.add(ledger.Forget{Node: "sn-3", Invitation: 2, Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: "sn-3"})})
	b.add(ledger.Rules{Contract: study, Run: 1, Order: op.asks(b, &swarmv1.CreateContractRequest{Contract: study, Rules: &swarmv1.Rules{Method: "mean", Export: true}})})
	b.round(1, 1, 1, nodes[:2], ledger.Ban{
		PeerID: nodes[2].id, Node: "sl-2", Reason: "key was copied", By: op.id,
		Order: op.asks(b, &swarmv1.BanNodeRequest{Name: "sl-2", Reason: "key\nwas copied"}),
	})
	b.add(ledger.Unban{PeerID: nodes[2].id, Order: op.asks(b, &swarmv1.UnbanNodeRequest{Name: nodes[2].id})})
	b.add(ledger.Forget{Node: "sl-2", PeerID: nodes[2].id, Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: "sl-2"})})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{old.cert.Raw, renewed.cert.Raw}})
	b.add(nodes[3].register(t, renewed))
	b.round(1, 2, 3, []*node{nodes[0], nodes[1], nodes[3]})
	b.add(op.recovers(b, 2, sns[1], ""))
	b.add(nodes[1].lets(t, op.id, 1, 2))
	b.add(ledger.LostModel{Contract: study, Run: 1, Round: 2, Model: digestOf("model1 2").String(), Resumed: 1})
	b.adopts(1, 3, 6, 7, nodes[:2], 0)
	b.round(1, 8, 1, nodes[:2])
	b.add(ledger.Over{Contract: study, Run: 1, Round: 8, Model: digestOf("model1 8").String()})
	b.add(ledger.Reset{Contract: study, Run: 2, Order: op.asks(b, &swarmv1.ResetContractRequest{Contract: study, Run: 1})})
	b.round(2, 1, 1, nodes[:2])
	b.add(op.deletes(b, 2))
	b.add(ledger.Deleted{Contract: "unused", Run: 3, Expired: true})
	b.round(4, 1, 1, nodes[:2])
	return b, audit.Options{Authorities: []*x509.Certificate{old.cert}}
}

func verify(t *testing.T, b []byte, o audit.Options) *audit.Report {
	t.Helper()
	r, err := audit.Verify(bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGenuineLedgerIsGood(t *testing.T) {
	b, o := genuine(t)
	o.Head = b.head.Hash
	r := verify(t, b.bytes, o)
	if !r.Good() {
		t.Fatalf("problems: %v", r.Problems)
	}
	if r.Records != b.head.Length || r.Rounds != 6 || r.Registrations != 7 || r.Bundles != 2 || r.Unwitnessed != 1 || len(r.Contracts) != 2 {
		t.Errorf("report: %+v", r)
	}
	c := r.Contracts[0]
	if c.Run != 4 || c.Rounds != 6 || c.LastRound != 1 || c.Over || len(c.Participants) != 3 {
		t.Errorf("contract: %+v", c)
	}
	if d := c.Deletions; c.Deleted || len(d) != 1 || d[0].Run != 2 || d[0].By != "spiffe://a.example/swarm/swci/dr-who" || len(c.RulesAt(b.head.Length)) != 0 {
		t.Errorf("deletions: %+v", c)
	}
	// Weights are 1 and 2 in six rounds, and 3 in one.
	if s := c.Participants[1]; s.Node != "sl-1" || s.Rounds != 6 || s.Weight != 12 || s.Share < 0.571 || s.Share > 0.572 {
		t.Errorf("share: %+v", s)
	}
}

// leaves calls fn with the path of every field of a body and a way to forge it.
func leaves(v reflect.Value, path string, fn func(path string, forge func())) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			leaves(v.Field(i), strings.TrimPrefix(path+"."+name, "."), fn)
		}
	case reflect.Pointer: // the order; one of before they were signed has none
		if !v.IsNil() {
			leaves(v.Elem(), path, fn)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			fn(path, func() { v.SetBytes(bytes.Replace(v.Bytes(), []byte(`":"`), []byte(`":"x`), 1)) })
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			fn(path, func() {
				raw := bytes.Clone(v.Bytes())
				if len(raw) == 0 {
					raw = []byte{0}
				}
				raw[len(raw)/2] ^= 1
				v.SetBytes(raw)
			})
			return
		}
		if v.Len() == 0 {
			fn(path+" with one", func() { v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem()))) })
			return
		}
		fn(path+" without its last", func() { v.Set(v.Slice(0, v.Len()-1)) })
		fn(path+" with one twice", func() { v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), v.Index(v.Len()-1))) })
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), fn)
		}
	case reflect.String:
		fn(path, func() {
			s := v.String()
			last := byte('0')
			if strings.HasSuffix(s, "0") {
				last = '1'
			}
			v.SetString(s[:max(len(s)-1, 0)] + string(last))
		})
	case reflect.Bool:
		fn(path, func() { v.SetBool(!v.Bool()) })
	case reflect.Float64:
		fn(path, func() { v.SetFloat(v.Float() / 2) })
	case reflect.Int64:
		fn(path, func() { v.SetInt(v.Int() + 1) })
	default:
		fn(path, func() { v.SetUint(v.Uint() + 1) })
	}
}

// copied returns a body that may be changed, as an addressable value.
func copied(t *testing.T, body ledger.Body) reflect.Value {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.New(reflect.TypeOf(body))
	if err := json.Unmarshal(raw, v.Interface()); err != nil {
		t.Fatal(err)
	}
	return v.Elem()
}

// rechained is the ledger with one record replaced and all hashes after it made to fit, those that the participants of later
// rounds witnessed too if smart.
func rechained(t *testing.T, entries []entry, at int, with entry, smart bool) []byte {
	t.Helper()
	b := &builder{t: t}
	hashes := []string{""}
	for i, e := range entries {
		if i == at {
			e = with
		}
		if r, ok := e.body.(ledger.Round); ok && smart && i > at && r.Witnessed.Length < uint64(len(hashes)) {
			r.Witnessed.Hash = hashes[r.Witnessed.Length]
			e.body = r
		}
		b.chain(e)
		hashes = append(hashes, b.head.Hash)
	}
	return b.bytes
}

// TestEveryForgedFieldIsFound forges each field of each record in turn, and makes the chain whole again as a forger would.
func TestEveryForgedFieldIsFound(t *testing.T) {
	b, o := genuine(t)
	forged := map[string]int{}
	for at, e := range b.entries {
		kind := e.body.Kind()
		check := func(field string, with entry) {
			forged[kind]++
			proven := kind == "registration" || kind == "round" || kind == "fetch" || kind == "recovery"
			for _, smart := range []bool{false, true} {
				if proven && !smart {
					continue // found at the record itself, whatever comes after
				}
				r := verify(t, rechained(t, b.entries, at, with, smart), o)
				if r.Good() {
					t.Errorf("record %d (%s): a forged %s is not found (smart forger: %v)", at+1, kind, field, smart)
					continue
				}
				first := r.Problems[0]
				if first.Record < uint64(at+1) {
					t.Errorf("record %d (%s): a forged %s is blamed on %v", at+1, kind, field, first)
				}
				// What carries its own proof is named itself, the rest by the first round that witnessed it.
				if (proven || strings.HasPrefix(field, "order.")) && field != "at_ms" && !strings.HasSuffix(field, "chain with one twice") && first.Record != uint64(at+1) {
					t.Errorf("record %d (%s): a forged %s is found only at %v", at+1, kind, field, first)
				}
				if first.Field == "" || first.What == "" {
					t.Errorf("record %d (%s): %s: the problem says nothing: %+v", at+1, kind, field, first)
				}
			}
		}
		leaves(copied(t, e.body), "", func(path string, _ func()) {
			v := copied(t, e.body)
			leaves(v, "", func(p string, forge func()) {
				if p == path {
					forge()
				}
			})
			body, ok := v.Interface().(ledger.Body)
			if !ok {
				t.Fatal("no body")
			}
			check(path, entry{e.atMS, body})
		})
		if at+1 < len(b.entries) { // the last record's time is witnessed by nobody yet
			check("at_ms", entry{e.atMS + 1, e.body})
		}
	}
	for _, kind := range []string{"swarm", "bundle", "registration", "forget", "round", "over", "reset", "lost_model", "ban", "unban", "rules", "fetch", "deleted", "recovery", "admission", "invitation"} {
		if forged[kind] == 0 {
			t.Errorf("no field of kind %s was forged", kind)
		}
	}
}

// TestRemovedAndMovedRecordsAreFound: a forger may also leave records out or change their order.
func TestRemovedAndMovedRecordsAreFound(t *testing.T) {
	b, o := genuine(t)
	for at := range len(b.entries) - 1 {
		without := append(append([]entry(nil), b.entries[:at]...), b.entries[at+1:]...)
		if r := verify(t, rechained(t, without, -1, entry{}, true), o); r.Good() {
			t.Errorf("record %d (%s) is missing and nobody says so", at+1, b.entries[at].body.Kind())
		}
		moved := append([]entry(nil), b.entries...)
		moved[at], moved[at+1] = moved[at+1], moved[at]
		if r := verify(t, rechained(t, moved, -1, entry{}, true), o); r.Good() {
			t.Errorf("records %d and %d are swapped and nobody says so", at+1, at+2)
		}
		twice := append(append([]entry(nil), b.entries[:at+1]...), b.entries[at:]...)
		if r := verify(t, rechained(t, twice, -1, entry{}, true), o); r.Good() {
			t.Errorf("record %d (%s) is there twice and nobody says so", at+1, b.entries[at].body.Kind())
		}
	}
}

// TestForgedEnvelope changes the fields around the body without making the chain whole.
func TestForgedEnvelope(t *testing.T) {
	b, o := genuine(t)
	lines := bytes.SplitAfter(b.bytes, []byte("\n"))
	for name, change := range map[string]struct{ from, to, field string }{
		"version":  {`"v":1,`, `"v":2,`, "v"},
		"sequence": {`"seq":3,`, `"seq":4,`, "seq"},
		"previous": {`"prev":"`, `"prev":"0`, "prev"},
		"kind":     {`"kind":"registration"`, `"kind":"enrolment"`, "body"},
		"blank":    {`"seq":3`, `"seq": 3`, "line"},
		"time":     {`"at_ms":18`, `"at_ms":19`, ""}, // the next record's prev shows it
	} {
		changed := append([][]byte(nil), lines...)
		changed[2] = bytes.Replace(lines[2], []byte(change.from), []byte(change.to), 1)
		if name == "blank" {
			changed[2] = append([]byte("x"), changed[2]...)
		}
		r := verify(t, bytes.Join(changed, nil), o)
		if r.Good() {
			t.Errorf("%s: not found", name)
			continue
		}
		p := r.Problems[len(r.Problems)-1]
		if change.field == "" && (p.Record != 4 || p.Field != "prev") || change.field != "" && (p.Record != 3 || p.Field != change.field) {
			t.Errorf("%s: named as %v, want field %s of record 3", name, p, change.field)
		}
	}
}

func TestWhatTheAuditorKnowsCounts(t *testing.T) {
	b, o := genuine(t)
	for name, tt := range map[string]struct {
		bytes []byte
		o     audit.Options
		want  string
	}{
		"other CA":  {b.bytes, audit.Options{Authorities: []*x509.Certificate{newAuthority(t).cert}}, "record 2 (bundle): certificates[0]: authority"},
		"no CA":     {b.bytes, audit.Options{}, "is not among the CA certificates given"},
		"head":      {b.bytes, audit.Options{Authorities: o.Authorities, Head: strings.Repeat("0", 64)}, "hash: it is"},
		"cut off":   {b.bytes[:len(b.bytes)-5], o, "the copy is not complete"},
		"empty":     {nil, o, "the file is empty"},
		"no ledger": {[]byte("hello\n"), o, "record 1: line: malformed"},
		"long":      {bytes.Repeat([]byte("x"), ledger.MaxRecord+1), o, "longer than"},
	} {
		r := verify(t, tt.bytes, tt.o)
		if r.Good() || !strings.Contains(r.Problems[0].Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, r.Problems, tt.want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	t := &testing.T{}
	b, o := genuine(t)
	f.Add(b.bytes)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := verify(t, raw, o)
		if r.Good() && r.Records == 0 {
			t.Error("nothing is good")
		}
	})
}
