package logs

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
)

// Bounds of a request.
const (
	MaxTail    = 10_000
	Valid      = 5 * time.Minute // how long an operator has a request be good
	maxValid   = 10 * time.Minute
	maxRequest = 4 << 10
	nonceSize  = 16
	maxName    = 128
	maxMembers = 1024
	maxChain   = 4
)

const method = "ReadLogs"

// Sign signs for an operator which log is asked for.
func Sign(source identity.Source, swarmID string, part *swarmv1.LogPart) (*swarmv1.LogOrder, error) {
	request, err := proto.Marshal(part)
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	svid, err := source.GetX509SVID()
	if err != nil {
		return nil, fmt.Errorf("sign request: get own SVID: %w", err)
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails, by its contract
	o := &swarmv1.LogOrder{
		Request: request, Nonce: nonce, AskedUnixMs: time.Now().UnixMilli(), Chain: identity.RawChain(svid)[:min(len(svid.Certificates), maxChain)],
	}
	if o.Signature, err = identity.SignWithSVID(svid, identity.OrderMessage(orderOf(o, swarmID))); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return o, nil
}

func orderOf(o *swarmv1.LogOrder, swarmID string) identity.Order {
	return identity.Order{SwarmID: swarmID, Method: method, Request: o.GetRequest(), Nonce: o.GetNonce(), AskedMS: o.GetAskedUnixMs()}
}

// ID identifies a request by all that is signed of it.
func ID(o *swarmv1.LogOrder, swarmID string) []byte {
	sum := sha256.Sum256(identity.OrderMessage(orderOf(o, swarmID)))
	return sum[:]
}

// PartOf returns what was signed, held to its bounds. Who has signed it is not its matter.
func PartOf(o *swarmv1.LogOrder) (*swarmv1.LogPart, error) {
	chain := 0
	for _, c := range o.GetChain() {
		chain += len(c)
	}
	switch {
	case len(o.GetRequest()) > maxRequest:
		return nil, fmt.Errorf("the request has %d bytes, at most %d", len(o.GetRequest()), maxRequest)
	case len(o.GetNonce()) != nonceSize, len(o.GetSignature()) > 1<<10, len(o.GetChain()) > maxChain, chain > 16<<10:
		return nil, errors.New("nonce, signature or certificates are out of their bounds")
	}
	p := &swarmv1.LogPart{}
	if err := proto.Unmarshal(o.GetRequest(), p); err != nil {
		return nil, errors.New("what was signed can't be read")
	}
	switch {
	case len(p.ProtoReflect().GetUnknown()) > 0: // it may be a condition
		return nil, errors.New("it was signed by a later version, with a field that is not known here: update this node")
	case p.GetNode() == "" || len(p.GetNode()) > maxName || len(p.GetAssignment()) > maxName:
		return nil, errors.New("its names are out of their bounds")
	case p.GetArtifacts() && (p.GetAssignment() == "" || p.GetFollow()):
		return nil, errors.New("it asks for artifacts of no assignment, or to follow them")
	case (p.GetEpoch() > 0 || len(p.GetMembers()) > 0) && !p.GetArtifacts(), len(p.GetMembers()) > 0 && p.GetEpoch() == 0:
		return nil, errors.New("it names an epoch, or members, of which it asks for nothing")
	case p.GetFigures() && (p.GetAssignment() != "" || p.GetFollow()):
		return nil, errors.New("it asks for figures of an assignment, or to follow them")
	case len(p.GetMembers()) > maxMembers:
		return nil, fmt.Errorf("it asks after %d members: at most %d", len(p.GetMembers()), maxMembers)
	case p.GetTail() > MaxTail:
		return nil, fmt.Errorf("it asks for the last %d lines: at most %d", p.GetTail(), MaxTail)
	}
	return p, nil
}

// Verifier proves by a host's own means who asks for a log.
type Verifier struct {
	Source  identity.Source  // has the trust bundles
	Domains identity.Domains // from which operators are taken
	Node    string           // the host's name in the swarm
	SwarmID func() string
}

// verify returns who has signed a request for this host, which is good now.
func (v *Verifier) verify(o *swarmv1.LogOrder, p *swarmv1.LogPart, now time.Time) (identity.ID, error) {
	by, err := identity.ProveOrder(v.Source, orderOf(o, v.SwarmID()), o.GetChain(), o.GetSignature())
	if err != nil {
		return identity.ID{}, fmt.Errorf("the request proves nothing: %w", err)
	}
	if by, err = v.Domains.Check(by.SPIFFE(), identity.RoleSWCI); err != nil {
		return identity.ID{}, err
	}
	left := time.Duration(p.GetExpiresUnixMs()-now.UnixMilli()) * time.Millisecond
	switch {
	case p.GetNode() != v.Node:
		return identity.ID{}, fmt.Errorf("it was signed for node %.128q", p.GetNode())
	case p.GetExpiresUnixMs() <= now.UnixMilli():
		return identity.ID{}, errors.New("the request has expired: ask again, and compare the clocks of both hosts if that lasts")
	case p.GetExpiresUnixMs() > now.Add(maxValid).UnixMilli() || left > maxValid:
		return identity.ID{}, fmt.Errorf("the request expires in more than %v: ask for less, and compare the clocks of both hosts", maxValid)
	}
	return by, nil
}
