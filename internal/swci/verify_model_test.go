package swci_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/protobuf/encoding/protojson"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// committed are records of a swarm of one SL, whose fourth round made a model.
type committed struct {
	t      *testing.T
	at     time.Time
	head   ledger.Head
	lines  []byte
	bundle string // file
	key    *ecdsa.PrivateKey
	ca     *x509.Certificate
}

func newCommitted(t *testing.T) *committed {
	t.Helper()
	c := &committed{t: t, at: time.Date(2026, 11, 22, 19, 12, 0, 0, time.UTC)}
	var err error
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	c.ca = c.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, URIs: []*url.URL{{Scheme: "spiffe", Host: "a.example"}}}, &c.key.PublicKey)
	c.bundle = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(c.bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *committed) issue(template *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	c.t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), c.at.Add(-time.Hour), c.at.Add(time.Hour)
	parent := c.ca
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	return cert
}

func (c *committed) svid(path string) *x509svid.SVID {
	id := spiffeid.RequireFromString("spiffe://a.example" + path)
	return &x509svid.SVID{ID: id, PrivateKey: c.key, Certificates: []*x509.Certificate{
		c.issue(&x509.Certificate{URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature}, &c.key.PublicKey),
	}}
}

func (c *committed) add(body ledger.Body) {
	c.t.Helper()
	line, head, err := ledger.Append(c.head, c.at.UnixMilli(), body)
	if err != nil {
		c.t.Fatal(err)
	}
	c.lines, c.head = append(c.lines, line...), head
}

func signed(t *testing.T, svid *x509svid.SVID, msg []byte) []byte {
	t.Helper()
	sig, err := identity.SignWithSVID(svid, msg)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// train records a swarm, its rules and rounds, of which the last made the model.
func (c *committed) train(layout merge.Digest, rounds uint64, method, model string) {
	t := c.t
	t.Helper()
	c.add(ledger.Swarm{SwarmID: "s"})
	c.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{c.ca.Raw}})
	request, err := protojson.Marshal(&swarmv1.CreateContractRequest{Contract: "c", Rules: &swarmv1.Rules{MinPeers: 1, Export: true}})
	if err == nil {
		request, err = json.Marshal(json.RawMessage(request))
	}
	if err != nil {
		t.Fatal(err)
	}
	op := c.svid("/swarm/swci/dr-who")
	o := &ledger.Order{By: op.ID.String(), Method: "CreateContract", Request: request, Nonce: []byte{1}, Chain: identity.RawChain(op)}
	o.Signature = signed(t, op, identity.OrderMessage(identity.Order{SwarmID: "s", Method: o.Method, Request: o.Request, Nonce: o.Nonce}))
	c.add(ledger.Rules{Contract: "c", Run: 1, Order: o})
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	sl := c.svid("/swarm/sl/hospital-a")
	c.add(ledger.Registration{
		Node: "hospital-a", Role: "sl", SPIFFEID: sl.ID.String(), PeerID: id.String(), Chain: identity.RawChain(sl),
		Signature: signed(t, sl, identity.OwnershipMessage("s", "hospital-a", id.String())),
	})
	c.add(ledger.Program{Contract: "c", Run: 1, Node: "hospital-a", PeerID: id.String(), Program: "train.py sha256:00"})
	for n := uint64(1); n <= rounds; n++ {
		c.at = c.at.Add(10 * time.Second)
		digest := merge.Sum([]byte{byte(n)}).String()
		if n == rounds {
			digest = model
		}
		out := exchange.Outcome{Contract: "c", Run: 1, Round: n, Number: 1, Node: "hospital-a", ShardDigests: []merge.Digest{layout}}
		if out.ModelDigest, err = merge.ParseDigest(digest); err != nil {
			t.Fatal(err)
		}
		out.Plan = exchange.Planned{
			Contract: "c", Run: 1, Round: n, Method: method, Layout: layout, Participants: []exchange.Participant{{Node: id.String(), Weight: 1, Shard: merge.Shard{Leaves: 3}}},
		}.Digest()
		sig, err := key.Sign(exchange.AttestationMessage(out))
		if err != nil {
			t.Fatal(err)
		}
		c.add(ledger.Round{
			Contract: "c", Run: 1, Round: n, Attempt: 1, Method: method, Layout: layout.String(), Model: digest, Shards: []string{layout.String()},
			Participants: []ledger.Participant{{Node: "hospital-a", PeerID: id.String(), Weight: 1, ShardLeaves: 3, Signature: sig}},
		})
	}
	c.add(ledger.Over{Contract: "c", Run: 1, Round: rounds, Model: model})
}

func (c *committed) file(extra ...string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, append(append([]byte{}, c.lines...), strings.Join(extra, "")...), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// TestVerifyModelHoldsAllThatTheFileSays: what a file claims and the ledger has otherwise is named, and a ledger is believed only if
// all of it is good.
func TestVerifyModelHoldsAllThatTheFileSays(t *testing.T) {
	_, swarmctl := newHolders(t)
	layout, _, digest := mixed(t)
	file := filepath.Join(t.TempDir(), "m.safetensors")
	if _, err := swarmctl("get", "model", "c", "--sn", "10.0.0.1", "--out", file); err != nil {
		t.Fatal(err)
	}
	genuine := newCommitted(t)
	genuine.train(layout.Digest(), 4, "krum(f=1)", digest)
	out, err := swarmctl("verify", "model", file, "--ledger", genuine.file(), "--bundle", genuine.bundle)
	for _, want := range []string{
		"made in rounds 1–4 of run 1, 22 Nov 2026 19:12–19:12 UTC, by krum(f=1), from hospital-a 100 %; signatures checked",
		"programs, as their SLs said: train.py sha256:00 (hospital-a)",
		"rules: min peers 1, models may be fetched (record 3, 22 Nov 2026 19:12 UTC, by spiffe://a.example/swarm/swci/dr-who)",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("want %q: %v\n%s", want, err, out)
		}
	}
	late := newCommitted(t)
	late.train(layout.Digest(), 4, "krum(f=1)", digest)
	late.at = late.at.Add(-time.Hour)
	late.add(ledger.Bundle{TrustDomain: "b.example", Certificates: [][]byte{late.ca.Raw}})
	if out, err := swarmctl("verify", "model", file, "--ledger", late.file()); err != nil || !strings.Contains(out, "times: record 11 is dated 22 Nov 2026 18:12 UTC, before an earlier one of 22 Nov 2026 19:12 UTC") {
		t.Errorf("with a time that goes back: %v\n%s", err, out)
	}
	if out, err := swarmctl("verify", "model", file, "--ledger", genuine.file()); err != nil || !strings.Contains(out, "the chain is whole; signatures were not checked") {
		t.Errorf("without --bundle: %v\n%s", err, out)
	}
	if out, err := swarmctl("verify", "ledger", genuine.file(), "--bundle", genuine.bundle); err != nil ||
		!strings.Contains(out, "c         1    4       over   22 Nov 2026 19:12 UTC  22 Nov 2026 19:12 UTC  hospital-a") || !strings.Contains(out, "rules of c from run 1 on: min peers 1") {
		t.Errorf("verify ledger: %v\n%s", err, out)
	}
	made := func(rounds uint64, method, model string) *committed {
		c := newCommitted(t)
		c.train(layout.Digest(), rounds, method, model)
		return c
	}
	late, mean, other := made(5, "krum(f=1)", digest), made(4, "mean", digest), made(4, "krum(f=1)", merge.Sum(nil).String())
	var head ledger.Head // a chain that is whole, and nothing else
	line, _, err := ledger.Append(head, 1, ledger.Round{Contract: "c", Run: 1, Round: 4, Method: "krum(f=1)", Model: digest, Layout: layout.Digest().String()})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ ledger, bundle, want string }{
		"another round":               {late.file(), late.bundle, "the file says round 4; this model was committed as round 5"},
		"another method":              {mean.file(), mean.bundle, "the file says method krum(f=1), the ledger has mean"},
		"another model":               {other.file(), other.bundle, "none of the 4 rounds of contract c, run 1, made this model"},
		"other certificates":          {genuine.file(), mean.bundle, "is not among the CA certificates given"},
		"garbage behind the match":    {genuine.file("garbage\n"), "", "is not good"},
		"made up, with garbage":       {(&committed{t: t, lines: line}).file("garbage\n"), "", "is not good"},
		"made up":                     {(&committed{t: t, lines: line}).file(), "", "is not good"},
		"cut off behind the match":    {genuine.file(`{"v":1`), "", "the copy is not complete"},
		"one of another contract run": {(&committed{t: t, lines: genuine.lines[:strings.IndexByte(string(genuine.lines), '\n')+1]}).file(), "", "has no round of contract c, run 1"},
	} {
		args := []string{"verify", "model", file, "--ledger", tt.ledger}
		if tt.bundle != "" {
			args = append(args, "--bundle", tt.bundle)
		}
		out, err := swarmctl(args...)
		if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := swarmctl("verify", "model", file, "--bundle", genuine.bundle); exit.Code(err) != exit.Usage {
		t.Errorf("certificates without a ledger: %v", err)
	}
}
