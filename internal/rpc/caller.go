package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
)

// Binding of a registration to its TLS connection: both sides export this value. internal/client has the same.
const (
	ExporterLabel = "EXPORTER-swarmd-registration-1"
	ExporterBytes = 32
)

// Caller is who makes a request, as its connection proves it.
type Caller struct {
	// ID is the swarm identity in the caller's SVID.
	ID identity.ID
	// Leaf is that SVID's certificate: its key signs for the ownership of a node key, its life bounds the requests.
	Leaf *x509.Certificate
	// Chain is the SVID's certificates, leaf first, as the connection showed them: the ledger keeps a registration's.
	Chain []*x509.Certificate
	// Exporter returns the value that binds a registration to this connection.
	Exporter func() ([]byte, error)
	// Remote is where its connection comes from; the zero Addr: that is not known.
	Remote netip.Addr

	via    string // the node key of the SN that sent the request; empty: it came from the caller itself
	passed bool   // that SN passes on what another has asked it
}

// chain is Chain, of which a CallerFunc may know the leaf alone.
func (c Caller) chain() []*x509.Certificate {
	if len(c.Chain) == 0 && c.Leaf != nil {
		return []*x509.Certificate{c.Leaf}
	}
	return c.Chain
}

// callerID returns the identity of who calls.
func callerID(ctx context.Context) (identity.ID, error) {
	c, err := callerFrom(ctx)
	return c.ID, err
}

// key names the caller among those that share a SPIFFE ID: by the certificate that its connection was made with.
func (c Caller) key() string {
	if c.Leaf == nil {
		return c.ID.String()
	}
	sum := sha256.Sum256(c.Leaf.Raw)
	return string(sum[:])
}

// here reports whether the caller is on the host of the SN called self: that SN is registered at a loopback address, so that all of the swarm is on
// one host, and so is the SN that passes the call on; a call that none passes on comes from loopback itself. That alone says nothing: behind a TCP
// proxy on an SN's host all callers do.
func (c Caller) here(view *state.State, self string) bool {
	own := view.Nodes[self]
	if own == nil || own.Role != naming.RoleSN || !onLoopback(own) {
		return false
	}
	if c.via == "" {
		return c.Remote.Unmap().IsLoopback()
	}
	for _, sn := range view.NodesByRole(naming.RoleSN) {
		if sn.PeerID == c.via {
			return onLoopback(sn)
		}
	}
	return false
}

// onLoopback reports whether a node is registered at a loopback address.
func onLoopback(n *state.Node) bool {
	at, err := netip.ParseAddr(n.Host)
	return err == nil && at.Unmap().IsLoopback() || n.Host == "localhost"
}

func (c Caller) expired(now time.Time) bool { return c.Leaf != nil && !now.Before(c.Leaf.NotAfter) }

// nearlyExpired holds in the last sixth of the SVID's life: long after a rotation, which comes at half of it.
func (c Caller) nearlyExpired(now time.Time) bool {
	return c.Leaf != nil && c.Leaf.NotAfter.Sub(now) < c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)/6
}

// CallerFunc finds out who makes a request. [TLSCaller] is the one of the real API; tests without TLS bring their own.
type CallerFunc func(*http.Request) (Caller, error)

// TLSCaller reads the caller from the request's connection. The TLS configuration of source has verified the chain and
// the trust domain already; it fails with [ErrNoCertificate] when there is no usable certificate.
func TLSCaller(source identity.Source) CallerFunc {
	return func(r *http.Request) (Caller, error) {
		id, err := identity.PeerFromTLS(source, r.TLS)
		if err != nil {
			return Caller{}, fmt.Errorf("%w: %w", ErrNoCertificate, err)
		}
		remote, _ := netip.ParseAddrPort(r.RemoteAddr)
		return Caller{ID: id, Leaf: r.TLS.PeerCertificates[0], Chain: r.TLS.PeerCertificates, Remote: remote.Addr(), Exporter: func() ([]byte, error) {
			return r.TLS.ExportKeyingMaterial(ExporterLabel, nil, ExporterBytes)
		}}, nil
	}
}

type callerKey struct{}

func withCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerFrom returns the caller that the middleware stored. Its absence is a mistake in the composition, so it denies.
func callerFrom(ctx context.Context) (Caller, error) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return Caller{}, errors.Join(ErrNoCertificate, errors.New("request did not pass the middleware"))
	}
	return c, nil
}
