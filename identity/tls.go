package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// ErrOwnExpired reports that a connection can not be made because this node's own certificate has expired.
var ErrOwnExpired = errors.New("this node's own certificate can not be used")

// ServerTLS returns the configuration of an API server: TLS 1.3, mutual, the source's SVID of the moment at each
// handshake, clients of the given roles only (any swarm role if none). Session tickets are off, so that no
// connection outlives a revoked SVID by resumption.
func ServerTLS(src Source, domains Domains, roles ...Role) *tls.Config {
	return MutualTLS(src, func(id spiffeid.ID) error {
		_, err := domains.Check(id, roles...)
		return err
	})
}

// ClientTLS returns the configuration of an API client: the counterpart of ServerTLS. It checks the server's SVID
// and role instead of a host name.
func ClientTLS(src Source, domains Domains, roles ...Role) *tls.Config {
	return ServerTLS(src, domains, roles...)
}

// MutualTLS returns a configuration for either side of a TLS 1.3 connection: it shows the source's SVID of the moment
// and accepts a peer whose chain the source's bundles verify, unless judge, given whom the chain stands for, returns an
// error. A nil judge accepts everybody who is verified.
func MutualTLS(src Source, judge func(spiffeid.ID) error) *tls.Config {
	certificate := func(client bool) (*tls.Certificate, error) {
		svid, err := src.GetX509SVID()
		if err != nil {
			return nil, err
		}
		// A server shows what it has: whoever dials refuses it in words, which no TLS alert would give. One that is not
		// valid yet is left to the other side's clock, since this one's may be a few seconds behind the authority's.
		if leaf, now := svid.Certificates[0], time.Now(); client && now.After(leaf.NotAfter) {
			return nil, fmt.Errorf("%w: %s %s", ErrOwnExpired, svid.ID, validity(leaf.NotBefore, leaf.NotAfter, now))
		}
		return &tls.Certificate{Certificate: RawChain(svid), PrivateKey: svid.PrivateKey}, nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, //nolint:gosec // VerifyPeerCertificate does it
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(false) },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate(true) },
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			chain, err := ParseChain(raw)
			if err != nil {
				return err
			}
			id, err := VerifyChain(src, chain)
			if err != nil || judge == nil {
				return err
			}
			return judge(id)
		},
	}
}

// PeerFromTLS returns the swarm identity of the peer of a connection that was made with ServerTLS or ClientTLS of src.
// It relies on their verification and does none of its own.
func PeerFromTLS(src Source, state *tls.ConnectionState) (ID, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return ID{}, errors.New("read peer identity: the connection has no client certificate")
	}
	id, err := CertID(src, state.PeerCertificates[0])
	if err != nil {
		return ID{}, fmt.Errorf("read peer identity: %w", err)
	}
	return ParseID(id)
}

// VerifySVID verifies a chain of DER certificates, leaf first, against the source's bundles as of now, and checks
// trust domain and role as Domains.Check does. It returns the leaf.
func VerifySVID(rawCerts [][]byte, src Source, domains Domains, roles ...Role) (ID, *x509.Certificate, error) {
	chain, err := ParseChain(rawCerts)
	if err != nil {
		return ID{}, nil, fmt.Errorf("verify SVID: %w", err)
	}
	sid, err := VerifyChain(src, chain)
	if err != nil {
		return ID{}, nil, fmt.Errorf("verify SVID: %w", err)
	}
	id, err := domains.Check(sid, roles...)
	if err != nil {
		return ID{}, nil, err
	}
	return id, chain[0], nil
}

// RawChain returns the SVID's certificates in DER form, leaf first, as VerifySVID takes them.
func RawChain(svid *x509svid.SVID) [][]byte {
	raw := make([][]byte, len(svid.Certificates))
	for i, c := range svid.Certificates {
		raw[i] = c.Raw
	}
	return raw
}
