package spire

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	agentv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/agent/v1"
	bundlev1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/bundle/v1"
	entryv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/entry/v1"
	localauthorityv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/localauthority/v1"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/swarmd/swarmd/identity"
)

// DefaultServerSocket is where a SPIRE server has its API socket unless told otherwise.
const DefaultServerSocket = "/tmp/spire-server/private/api.sock"

// DefaultTokenTTL is how long a join token may be used unless told otherwise.
const DefaultTokenTTL = 10 * time.Minute

const (
	dialLimit = 5 * time.Second
	maxSocket = 107 // bytes of a unix socket's path
)

// Server is a client of a SPIRE server's private API: whoever may open its socket administers the trust domain. All
// methods are safe for concurrent use and block until the server has answered.
type Server struct {
	socket  string
	conn    *grpc.ClientConn
	agents  agentv1.AgentClient
	bundles bundlev1.BundleClient
	entries entryv1.EntryClient
	local   localauthorityv1.LocalAuthorityClient
	health  grpc_health_v1.HealthClient
}

// OpenServer opens the API socket of a SPIRE server on this machine. It is an error if nobody listens there. The caller
// closes it.
func OpenServer(socket string) (*Server, error) {
	socket = strings.TrimPrefix(socket, "unix://")
	probe, err := net.DialTimeout("unix", socket, dialLimit)
	if err != nil {
		return nil, fmt.Errorf("open SPIRE server's API: %w: is the server running on this machine, and may this user open its socket?", err)
	}
	_ = probe.Close()
	return dialServer(socket)
}

func dialServer(socket string) (*Server, error) {
	conn, err := grpc.NewClient("passthrough:///spire-server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return nil, fmt.Errorf("open SPIRE server's API: %w", err)
	}
	return &Server{
		socket: socket, conn: conn, agents: agentv1.NewAgentClient(conn), bundles: bundlev1.NewBundleClient(conn),
		entries: entryv1.NewEntryClient(conn), local: localauthorityv1.NewLocalAuthorityClient(conn), health: grpc_health_v1.NewHealthClient(conn),
	}, nil
}

// Socket returns the path of the API socket.
func (s *Server) Socket() string { return s.socket }

// Close closes the connection to the server.
func (s *Server) Close() error { return s.conn.Close() }

// Check returns nil if the server answers and says that it is healthy.
func (s *Server) Check(ctx context.Context) error {
	resp, err := s.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return s.failed("check SPIRE server", err)
	}
	if resp.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("check SPIRE server: it says %s", resp.Status)
	}
	return nil
}

// Bundle returns the certificates that the server's trust domain trusts now, as PEM, and the trust domain's name.
func (s *Server) Bundle(ctx context.Context) (pemBytes []byte, trustDomain string, err error) {
	bundle, err := s.bundles.GetBundle(ctx, &bundlev1.GetBundleRequest{})
	if err != nil {
		return nil, "", s.failed("get trust bundle", err)
	}
	for _, a := range bundle.X509Authorities {
		pemBytes = append(pemBytes, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Asn1})...)
	}
	if len(pemBytes) == 0 {
		return nil, "", errors.New("get trust bundle: the SPIRE server has no X.509 authority yet")
	}
	return pemBytes, bundle.TrustDomain, nil
}

// Counts is how much a server has.
type Counts struct {
	Entries, Agents int
	// CANotAfter is when the certificate expires with which the server signs now, which may be below that of an upstream authority; zero: it
	// does not say, as servers of old versions.
	CANotAfter time.Time
}

// Count counts what a server has.
type Count func(ctx context.Context) (Counts, error)

// Counts counts what the server has.
func (s *Server) Counts(ctx context.Context) (n Counts, err error) {
	entries, err := s.entries.CountEntries(ctx, &entryv1.CountEntriesRequest{})
	if err != nil {
		return n, s.failed("count entries", err)
	}
	agents, err := s.agents.CountAgents(ctx, &agentv1.CountAgentsRequest{})
	if err != nil {
		return n, s.failed("count agents", err)
	}
	switch ca, err := s.local.GetX509AuthorityState(ctx, &localauthorityv1.GetX509AuthorityStateRequest{}); {
	case err == nil && ca.GetActive() != nil:
		n.CANotAfter = time.Unix(ca.Active.ExpiresAt, 0)
	case err != nil && status.Code(err) != codes.Unimplemented:
		return n, s.failed("get the state of the CA", err)
	}
	n.Entries, n.Agents = int(entries.Count), int(agents.Count)
	return n, nil
}

// AgentOf returns the path that suits the agent of a node: its own, if a registration entry has that for a parent, else the
// one of all nodes of the role, whose entry the node then shares. own tells which it is; it is true if name is "".
func (s *Server) AgentOf(ctx context.Context, role identity.Role, name string) (path string, own bool, err error) {
	shared := AgentPath(role, "")
	if name == "" {
		return shared, true, nil
	}
	_, domain, err := s.Bundle(ctx)
	if err != nil {
		return "", false, err
	}
	path = AgentPath(role, name)
	resp, err := s.entries.ListEntries(ctx, &entryv1.ListEntriesRequest{
		Filter: &entryv1.ListEntriesRequest_Filter{ByParentId: &types.SPIFFEID{TrustDomain: domain, Path: path}}, PageSize: 1,
	})
	if err != nil {
		return "", false, s.failed("list entries", err)
	}
	if len(resp.Entries) == 0 {
		return shared, false, nil
	}
	return path, true, nil
}

// JoinToken makes a join token, good for one agent within ttl (whole seconds). The agent gets every alias, a path such as
// "/swarm/sl-agent/hospital-a", and may so hand out the identities of the entries whose parent the alias is.
func (s *Server) JoinToken(ctx context.Context, aliases []string, ttl time.Duration) (token string, err error) {
	seconds := int32(min(ttl/time.Second, 1<<31-1))
	if seconds < 1 {
		return "", fmt.Errorf("make join token: it must live a second at least, not %v", ttl)
	}
	_, domain, err := s.Bundle(ctx)
	if err != nil {
		return "", err
	}
	td, err := spiffeid.TrustDomainFromString(domain)
	if err != nil {
		return "", fmt.Errorf("make join token: trust domain of the server: %w", err)
	}
	ids := make([]*types.SPIFFEID, len(aliases))
	for i, a := range aliases {
		if _, err := spiffeid.FromPath(td, a); err != nil {
			return "", fmt.Errorf("make join token: agent path %q: %w", a, err)
		}
		ids[i] = &types.SPIFFEID{TrustDomain: domain, Path: a}
	}
	req := &agentv1.CreateJoinTokenRequest{Ttl: seconds}
	if len(ids) > 0 {
		req.AgentId = ids[0]
	}
	made, err := s.agents.CreateJoinToken(ctx, req)
	if err != nil {
		return "", s.failed("make join token", err)
	}
	// The server itself makes the first alias; the others are the same entry with another ID.
	agent := &types.SPIFFEID{TrustDomain: domain, Path: "/spire/agent/join_token/" + made.Value}
	for _, id := range ids[min(1, len(ids)):] {
		entry := &types.Entry{ParentId: agent, SpiffeId: id, Selectors: []*types.Selector{{Type: "spiffe_id", Value: "spiffe://" + domain + agent.Path}}}
		if err := s.create(ctx, entry); err != nil {
			return "", fmt.Errorf("make join token: alias %s: %w", id.Path, err)
		}
	}
	return made.Value, nil
}

// create makes one entry. An entry that exists already is an error.
func (s *Server) create(ctx context.Context, e *types.Entry) error {
	resp, err := s.entries.BatchCreateEntry(ctx, &entryv1.BatchCreateEntryRequest{Entries: []*types.Entry{e}})
	if err != nil {
		return s.failed("create entry", err)
	}
	if len(resp.Results) != 1 {
		return errors.New("create entry: the SPIRE server gave no result")
	}
	return resultError("create entry", resp.Results[0].Status)
}

func resultError(doing string, st *types.Status) error {
	if codes.Code(st.GetCode()) == codes.OK { //nolint:gosec // a gRPC code
		return nil
	}
	return fmt.Errorf("%s: the SPIRE server says: %s", doing, st.GetMessage())
}

// failed is a call's error in words, the cause wrapped.
func (s *Server) failed(doing string, err error) error {
	st := status.Convert(err)
	if st.Code() == codes.Unavailable {
		return &apiError{doing + ": no SPIRE server answers at " + s.socket, err}
	}
	return &apiError{doing + ": the SPIRE server says: " + st.Message(), err}
}

// apiError is a plain text over a gRPC error.
type apiError struct {
	text  string
	cause error
}

func (e *apiError) Error() string { return e.text }
func (e *apiError) Unwrap() error { return e.cause }
