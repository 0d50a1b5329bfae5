package spire

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	entryv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/entry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/swarmd/swarmd/identity"
)

// EnsureEntry makes a node's own registration entry, as RunServer does for ServerConfig.Nodes, unless the node's agent has one already.
// It federates as the entry that the role shares does. path is that of the node's agent, made whether the entry was.
func (s *Server) EnsureEntry(ctx context.Context, role identity.Role, name string) (path string, made bool, err error) {
	path, own, err := s.AgentOf(ctx, role, name)
	if err != nil || own {
		return path, false, err
	}
	_, domain, err := s.Bundle(ctx)
	if err != nil {
		return "", false, err
	}
	want := entryOf(role, name).in(domain)
	shared, err := s.entries.GetEntry(ctx, &entryv1.GetEntryRequest{Id: entryOf(role, "").ID})
	switch {
	case err == nil:
		want.FederatesWith = shared.GetFederatesWith()
	case status.Code(err) != codes.NotFound:
		return "", false, s.failed("get entry", err)
	}
	if err := s.create(ctx, want.proto()); err != nil {
		return "", false, err
	}
	return AgentPath(role, name), true, nil
}

// longestActivation is how long before its end SPIRE's server leaves a CA at most, for the next one.
const longestActivation = 7 * 24 * time.Hour

// TrustedUntil returns until when a SPIRE server certainly shows a certificate that fits its bundle of now, PEM: it goes on with a CA that
// is not in there when a sixth of the life of the newest one is left, at most seven days.
func TrustedUntil(bundle []byte) (time.Time, error) {
	certs, err := parseBundle(bundle)
	if err != nil {
		return time.Time{}, err
	}
	var until time.Time
	for _, c := range certs {
		left := min(c.NotAfter.Sub(c.NotBefore)/6, longestActivation)
		if end := c.NotAfter.Add(-left); end.After(until) {
			until = end
		}
	}
	return until, nil
}

// BundleDER returns the certificates of a PEM bundle, at least one, one after the other.
func BundleDER(bundle []byte) ([]byte, error) {
	certs, err := parseBundle(bundle)
	var der [][]byte
	for _, c := range certs {
		der = append(der, c.Raw)
	}
	return bytes.Join(der, nil), err
}

func parseBundle(bundle []byte) (certs []*x509.Certificate, err error) {
	if _, err := bundleDomain(bundle); err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read trust bundle: %w", err)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// CheckServer returns nil if a SPIRE server answers at HOST:PORT whose certificate fits the bundle, PEM. It may take three seconds.
func CheckServer(ctx context.Context, server string, bundle []byte) error {
	trusted, err := parseBundle(bundle)
	if err != nil {
		return err
	}
	certs, err := certificatesOf(ctx, server)
	if err != nil {
		return fmt.Errorf("no SPIRE server answers at %s (%w)", server, err)
	}
	id, err := x509svid.IDFromCert(certs[0])
	if err != nil {
		return fmt.Errorf("what answers at %s is no SPIRE server (%w)", server, err)
	}
	if _, _, err := x509svid.Verify(certs, x509bundle.FromX509Authorities(id.TrustDomain(), trusted)); err != nil {
		return fmt.Errorf("the SPIRE server at %s is another one: its certificate, of %s, does not fit the bundle of the server whose socket is used", server, id)
	}
	return nil
}

// HasJoined reports whether an agent whose StateDir this is goes on with what it has kept, so that it needs no join token.
func HasJoined(stateDir string) bool { return readSaved(dataDirOf(stateDir)).usable(time.Now()) }

// PortOf returns the port of the SPIRE server with this API socket, as the configuration of run-spire-server beside it says; else SPIRE's
// default.
func PortOf(socket string) int {
	if s, err := readSettings(filepath.Join(filepath.Dir(socket), confFile), nil); err == nil && s.socket == socket {
		return s.port
	}
	return defaultPort
}
