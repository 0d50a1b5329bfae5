package spiretest

import (
	"fmt"
	"os"
	"strings"
	"time"

	agentv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/agent/v1"
	bundlev1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/bundle/v1"
	entryv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/entry/v1"
	localauthorityv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/localauthority/v1"
	trustdomainv1 "github.com/spiffe/spire-api-sdk/proto/spire/api/server/trustdomain/v1"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"
)

// Entry is a registration entry. IDs may be paths in the server's trust domain.
type Entry struct {
	ID, Parent    string
	Selectors     []string // "unix:uid:0"
	TTL           time.Duration
	FederatesWith []string
	Downstream    bool
	DNS           []string
}

// UID is the unix attestor's selector of this process's user.
func UID() string { return fmt.Sprintf("unix:uid:%d", os.Getuid()) }

// CreateEntry creates a registration entry and returns its ID.
func (s *Server) CreateEntry(e Entry) string {
	s.t.Helper()
	var selectors []*types.Selector
	for _, text := range e.Selectors {
		kind, value, _ := strings.Cut(text, ":")
		selectors = append(selectors, &types.Selector{Type: kind, Value: value})
	}
	res, err := entryv1.NewEntryClient(s.conn).BatchCreateEntry(s.t.Context(), &entryv1.BatchCreateEntryRequest{Entries: []*types.Entry{{
		SpiffeId: spiffeID(s.ID(e.ID)), ParentId: spiffeID(s.ID(e.Parent)), Selectors: selectors, X509SvidTtl: int32(e.TTL.Seconds()),
		FederatesWith: e.FederatesWith, Downstream: e.Downstream, DnsNames: e.DNS,
	}}})
	if err != nil {
		s.t.Fatalf("create entry: %v", err)
	}
	s.check("create entry "+e.ID, res.GetResults()[0].GetStatus())
	return res.GetResults()[0].GetEntry().GetId()
}

// Entries lists all registration entries.
func (s *Server) Entries() []*types.Entry {
	s.t.Helper()
	res, err := entryv1.NewEntryClient(s.conn).ListEntries(s.t.Context(), &entryv1.ListEntriesRequest{})
	if err != nil {
		s.t.Fatalf("list entries: %v", err)
	}
	return res.GetEntries()
}

// DeleteEntry deletes all entries of an ID, which may be a path; there must be one.
func (s *Server) DeleteEntry(id string) {
	s.t.Helper()
	var ids []string
	for _, e := range s.Entries() {
		if "spiffe://"+e.GetSpiffeId().GetTrustDomain()+e.GetSpiffeId().GetPath() == s.ID(id) {
			ids = append(ids, e.GetId())
		}
	}
	if len(ids) == 0 {
		s.t.Fatalf("delete entry: there is none of %s", s.ID(id))
	}
	res, err := entryv1.NewEntryClient(s.conn).BatchDeleteEntry(s.t.Context(), &entryv1.BatchDeleteEntryRequest{Ids: ids})
	if err != nil {
		s.t.Fatalf("delete entry: %v", err)
	}
	for _, r := range res.GetResults() {
		s.check("delete entry "+id, r.GetStatus())
	}
}

// JoinToken makes a join token whose agent gets these IDs too; they may be paths.
func (s *Server) JoinToken(ttl time.Duration, aliases ...string) string {
	s.t.Helper()
	token, err := agentv1.NewAgentClient(s.conn).CreateJoinToken(s.t.Context(), &agentv1.CreateJoinTokenRequest{Ttl: int32(ttl.Seconds())})
	if err != nil {
		s.t.Fatalf("create join token: %v", err)
	}
	agent := s.ID("/spire/agent/join_token/" + token.GetValue())
	for _, alias := range aliases {
		s.CreateEntry(Entry{ID: alias, Parent: agent, Selectors: []string{"spiffe_id:" + agent}})
	}
	return token.GetValue()
}

// Bundle is the server's trust bundle.
func (s *Server) Bundle() *types.Bundle {
	s.t.Helper()
	b, err := bundlev1.NewBundleClient(s.conn).GetBundle(s.t.Context(), &bundlev1.GetBundleRequest{})
	if err != nil {
		s.t.Fatalf("get bundle: %v", err)
	}
	return b
}

// SetBundle gives the server another trust domain's bundle, as `bundle set` does.
func (s *Server) SetBundle(b *types.Bundle) {
	s.t.Helper()
	res, err := bundlev1.NewBundleClient(s.conn).BatchSetFederatedBundle(s.t.Context(), &bundlev1.BatchSetFederatedBundleRequest{Bundle: []*types.Bundle{b}})
	if err != nil {
		s.t.Fatalf("set bundle: %v", err)
	}
	s.check("set bundle", res.GetResults()[0].GetStatus())
}

// Federate makes this server follow another one's bundle endpoint (https_spiffe), beginning with its bundle of now.
func (s *Server) Federate(with *Server) {
	s.t.Helper()
	res, err := trustdomainv1.NewTrustDomainClient(s.conn).BatchCreateFederationRelationship(s.t.Context(), &trustdomainv1.BatchCreateFederationRelationshipRequest{
		FederationRelationships: []*types.FederationRelationship{{
			TrustDomain: with.TrustDomain, BundleEndpointUrl: fmt.Sprintf("https://127.0.0.1:%d", with.BundlePort),
			BundleEndpointProfile: &types.FederationRelationship_HttpsSpiffe{
				HttpsSpiffe: &types.HTTPSSPIFFEProfile{EndpointSpiffeId: with.ID("/spire/server")},
			},
			TrustDomainBundle: with.Bundle(),
		}},
	})
	if err != nil {
		s.t.Fatalf("federate: %v", err)
	}
	s.check("federate", res.GetResults()[0].GetStatus())
}

func (s *Server) check(what string, status *types.Status) {
	s.t.Helper()
	if status.GetCode() != 0 {
		s.t.Fatalf("%s: %s", what, status.GetMessage())
	}
}

// PrepareCA makes the server's next CA and puts it into the bundle; ActivateCA signs with it from now on, and no longer
// with the one before. Between the two every node must have got the bundle.
func (s *Server) PrepareCA() (authority string) {
	s.t.Helper()
	res, err := localauthorityv1.NewLocalAuthorityClient(s.conn).PrepareX509Authority(s.t.Context(), &localauthorityv1.PrepareX509AuthorityRequest{})
	if err != nil {
		s.t.Fatalf("prepare CA: %v", err)
	}
	return res.GetPreparedAuthority().GetAuthorityId()
}

// ActivateCA signs with a prepared CA from now on.
func (s *Server) ActivateCA(authority string) {
	s.t.Helper()
	_, err := localauthorityv1.NewLocalAuthorityClient(s.conn).ActivateX509Authority(s.t.Context(), &localauthorityv1.ActivateX509AuthorityRequest{AuthorityId: authority})
	if err != nil {
		s.t.Fatalf("activate CA: %v", err)
	}
}
