package membership

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
)

// bundleRetry is the pause after a trust bundle could not be recorded.
const bundleRetry = 2 * time.Second

// bundles returns the trust bundles that a source sees of the accepted domains. One that it does not see is left out.
func bundles(source identity.Source, domains identity.Domains) []state.RecordBundle {
	var out []state.RecordBundle
	for _, name := range domains.Names() {
		td, err := spiffeid.TrustDomainFromString(name)
		if err != nil {
			continue
		}
		b, err := source.GetX509BundleForTrustDomain(td)
		if err != nil || len(b.X509Authorities()) == 0 {
			continue
		}
		var ders [][]byte
		for _, cert := range b.X509Authorities() {
			ders = append(ders, cert.Raw)
		}
		out = append(out, state.BundleOf(name, ders, nowMS()))
	}
	return out
}

// RecordBundles has the ledger say which authorities this SN trusts, whenever they change and it leads.
func (s *Member) RecordBundles(ctx context.Context, group *consensus.Group) {
	source, domains, log := s.cfg.Source, s.cfg.Domains, s.cfg.Log
	for {
		renewed, changed := source.Changed(), group.Changed()
		wait := time.Duration(0)
		if group.IsLeader() && group.View().SwarmID != "" {
			wait = recordBundlesOnce(ctx, group, bundles(source, domains), log)
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-renewed:
		case <-changed:
		case <-again:
		}
	}
}

// recordBundlesOnce proposes what is not recorded yet, and returns when to try again if that fails.
func recordBundlesOnce(ctx context.Context, group *consensus.Group, seen []state.RecordBundle, log *slog.Logger) (again time.Duration) {
	for _, b := range seen {
		if group.View().Bundles[b.TrustDomain] == b.Digest() {
			continue
		}
		if _, err := group.ProposeAsLeader(ctx, b); err != nil {
			if ctx.Err() == nil && !errors.Is(err, consensus.ErrNotLeader) {
				log.Warn("trust bundle not recorded in the ledger; trying again", "trust_domain", b.TrustDomain, "err", err)
			}
			again = bundleRetry
			continue // one that the state has no room for keeps no other from the ledger
		}
		log.Info("recorded a trust bundle in the ledger", "trust_domain", b.TrustDomain, "authorities", len(b.Certificates))
	}
	return again
}

// prove adds to a registration the SVID's word that the node key is its own, for the ledger.
func prove(source identity.Source, swarmID string, register state.RegisterNode) (state.RegisterNode, error) {
	svid, err := source.GetX509SVID()
	if err != nil {
		return register, fmt.Errorf("prove this node's registration: %w", err)
	}
	msg := identity.OwnershipMessage(swarmID, register.Node.Name, register.Node.PeerID)
	if register.Signature, err = identity.SignWithSVID(svid, msg); err != nil {
		return register, fmt.Errorf("prove this node's registration: %w", err)
	}
	register.Node.SPIFFEID = svid.ID.String()
	register.Chain = identity.RawChain(svid)[:min(len(svid.Certificates), state.MaxChain)]
	return register, nil
}

// checkProof holds the registration of an SN that joins to what its SVID has signed, and returns the SVID's certificate.
func checkProof(source identity.Source, swarmID string, register state.RegisterNode) (*x509.Certificate, error) {
	chain, err := identity.ParseChain(register.Chain)
	if err != nil {
		return nil, fmt.Errorf("its SVID does not parse: %w", err)
	}
	id, err := identity.VerifyChain(source, chain)
	if err != nil {
		return nil, err
	}
	if id.String() != register.Node.SPIFFEID {
		return nil, fmt.Errorf("its SVID is of %s, not of %s", id, register.Node.SPIFFEID)
	}
	msg := identity.OwnershipMessage(swarmID, register.Node.Name, register.Node.PeerID)
	return chain[0], identity.VerifySVIDSignature(chain[0], msg, register.Signature)
}
