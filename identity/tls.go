package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Source gives the node's current X.509-SVID and the trust bundles. Both calls are cheap and safe for concurrent
// use; what they return must not be changed.
type Source interface {
	x509svid.Source
	x509bundle.Source
}

// ServerTLS returns the configuration of an API server: TLS 1.3, mutual, the source's SVID of the moment at each
// handshake, clients of the given roles only (any swarm role if none). Session tickets are off, so that no
// connection outlives a revoked SVID by resumption.
func ServerTLS(src Source, domains Domains, roles ...Role) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}
	tlsconfig.HookMTLSServerConfig(cfg, src, src, domains.Authorize(roles...))
	PlainErrors(cfg)
	return cfg
}

// ClientTLS returns the configuration of an API client: the counterpart of ServerTLS. It checks the server's SVID
// and role instead of a host name.
func ClientTLS(src Source, domains Domains, roles ...Role) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13}
	tlsconfig.HookMTLSClientConfig(cfg, src, src, domains.Authorize(roles...))
	PlainErrors(cfg)
	return cfg
}

// PlainErrors makes the configuration say in the users' words why it does not accept a peer's SVID, where the libraries
// speak of leaf certificates and candidate authorities. The cause stays wrapped.
func PlainErrors(cfg *tls.Config) {
	verify := cfg.VerifyPeerCertificate
	cfg.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
		if err := verify(raw, chains); err != nil {
			return plain(err)
		}
		return nil
	}
}

// refusal is a plain text over a cause.
type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

func plain(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return &refusal{"its SVID is not signed by an authority that this node trusts (do both use the same one?)", err}
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return &refusal{"its SVID has expired or is not valid yet (do both clocks agree?)", err}
	}
	return err
}

// PeerFromTLS returns the swarm identity of the peer of a connection that was made with ServerTLS or ClientTLS.
// It relies on their verification and does none of its own.
func PeerFromTLS(state *tls.ConnectionState) (ID, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return ID{}, errors.New("read peer identity: the connection has no client certificate")
	}
	id, err := x509svid.IDFromCert(state.PeerCertificates[0])
	if err != nil {
		return ID{}, fmt.Errorf("read peer identity: %w", err)
	}
	return ParseID(id)
}

// maxChain bounds the certificates of a chain that a peer sends.
const maxChain = 8

// VerifySVID verifies a chain of DER certificates, leaf first, against the source's bundles as of now, and checks
// trust domain and role as Domains.Check does. It returns the leaf.
func VerifySVID(rawCerts [][]byte, bundles x509bundle.Source, domains Domains, roles ...Role) (ID, *x509.Certificate, error) {
	if len(rawCerts) == 0 || len(rawCerts) > maxChain {
		return ID{}, nil, fmt.Errorf("verify SVID: chain has %d certificates: want 1 to %d", len(rawCerts), maxChain)
	}
	sid, chains, err := x509svid.ParseAndVerify(rawCerts, bundles)
	if err != nil {
		return ID{}, nil, fmt.Errorf("verify SVID: %w", err)
	}
	id, err := domains.Check(sid, roles...)
	if err != nil {
		return ID{}, nil, err
	}
	return id, chains[0][0], nil
}

// RawChain returns the SVID's certificates in DER form, leaf first, as VerifySVID takes them.
func RawChain(svid *x509svid.SVID) [][]byte {
	raw := make([][]byte, len(svid.Certificates))
	for i, c := range svid.Certificates {
		raw[i] = c.Raw
	}
	return raw
}
