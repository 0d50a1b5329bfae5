// Package identity says who a peer is: the role and node name in its SPIFFE ID, the X.509-SVID source behind
// its TLS connections, the node key that binds it to a libp2p peer ID, and the state directory that it owns.
// Nothing here opens a network connection except OpenSource, which talks to the local Workload API.
package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"

	"github.com/swarmd/swarmd/identity/naming"
)

// ErrNotAuthorized reports a peer whose SVID is genuine but not accepted here: its trust domain is foreign, its
// path names no swarm role, or its role may not do what it asks for.
var ErrNotAuthorized = errors.New("peer not authorized")

const pathPrefix = "/swarm/"

// Role is what a node is for. The SPIFFE ID's path carries it, so it is proven, never claimed.
type Role string

// The roles of a swarm.
const (
	// RoleSN is a Swarm Network node: raft member and API server.
	RoleSN Role = naming.RoleSN
	// RoleSL is a Swarm Learning node: trains beside its data.
	RoleSL Role = naming.RoleSL
	// RoleSWOP is an operator node: executes tasks on its host.
	RoleSWOP Role = naming.RoleSWOP
	// RoleSWCI is a user's command shell, swarmctl.
	RoleSWCI Role = naming.RoleSWCI
	// RoleAudit is an auditor's swarmctl: it may read ledger, nodes, contracts and health, and nothing else.
	RoleAudit Role = naming.RoleAudit
)

// Roles lists all roles in a fixed order. The caller owns the slice.
func Roles() []Role {
	var all []Role
	for _, r := range naming.Roles() {
		all = append(all, Role(r.Name))
	}
	return all
}

// ParseRole returns the role with this name.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles() {
		if string(r) == s {
			return r, nil
		}
	}
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return "", fmt.Errorf("parse role: %q is none of %s", s, strings.Join(names, ", "))
}

// ID is a SPIFFE ID of the swarm: /swarm/<role> or /swarm/<role>/<name>. The zero value is no identity.
type ID struct {
	id   spiffeid.ID
	role Role
	name string
}

// ParseID checks that id has a swarm path and returns it. It does not check the trust domain: see Domains.
func ParseID(id spiffeid.ID) (ID, error) {
	rest, ok := strings.CutPrefix(id.Path(), pathPrefix)
	if !ok {
		return ID{}, fmt.Errorf("parse SPIFFE ID: %q is no swarm identity: want spiffe://DOMAIN/swarm/ROLE[/NAME]", id)
	}
	roleName, name, named := strings.Cut(rest, "/")
	role, err := ParseRole(roleName)
	if err != nil {
		return ID{}, fmt.Errorf("parse SPIFFE ID: %q: %w", id, err)
	}
	if named {
		if err := naming.CheckNode(name); err != nil {
			return ID{}, fmt.Errorf("parse SPIFFE ID: %q: %w", id, err)
		}
	}
	return ID{id: id, role: role, name: name}, nil
}

// ParseIDString is ParseID of a SPIFFE ID in text form.
func ParseIDString(s string) (ID, error) {
	id, err := spiffeid.FromString(s)
	if err != nil {
		return ID{}, fmt.Errorf("parse SPIFFE ID: %q: %w", s, err)
	}
	return ParseID(id)
}

// Role returns the role, "" for the zero value.
func (i ID) Role() Role { return i.role }

// NodeName returns the name in the path, "" for an identity that several nodes of the role share.
func (i ID) NodeName() string { return i.name }

// SPIFFE returns the SPIFFE ID.
func (i ID) SPIFFE() spiffeid.ID { return i.id }

// IsZero reports whether i is no identity.
func (i ID) IsZero() bool { return i.role == "" }

// String returns the SPIFFE ID in text form, "" for the zero value.
func (i ID) String() string { return i.id.String() }

// MaySpeakFor reports whether a node of this identity may use the node name: an identity with a name speaks for
// that name only, a shared one for any.
func (i ID) MaySpeakFor(name string) bool {
	return !i.IsZero() && (i.name == "" || i.name == name)
}

// CNDomain is the trust domain of the SPIFFE IDs that stand for certificates without one, and ends those that are made of a CA's
// digest. Nobody can own a domain under .invalid, and certificates that name one of these are refused.
const CNDomain = "cn-roles.swarmd.invalid"

// IsCNDomain reports whether a trust domain stands for certificates without SPIFFE ID.
func IsCNDomain(td spiffeid.TrustDomain) bool {
	return td.Name() == CNDomain || strings.HasSuffix(td.Name(), "."+CNDomain)
}

// Domains are the trust domains that a node accepts peers from. The zero value accepts none.
type Domains struct {
	accepted []spiffeid.TrustDomain
	more     accepting // nil: none
}

// accepting is a source of identities that says by itself which other trust domains are accepted; they may change.
type accepting interface {
	Accepted() []spiffeid.TrustDomain
}

// DomainsOf accepts the trust domain of a node's identity, the extra ones, given as names or SPIFFE IDs, and what the source accepts
// by itself, as of each call.
func DomainsOf(source Provider, extra ...string) (Domains, error) {
	d, err := NewDomains(source.ID().SPIFFE().TrustDomain(), extra...)
	if more, ok := source.(accepting); ok && err == nil {
		d.more = more
	}
	return d, err
}

// NewDomains accepts the node's own trust domain and the extra ones, given as names or SPIFFE IDs.
func NewDomains(own spiffeid.TrustDomain, extra ...string) (Domains, error) {
	d := Domains{}
	if !own.IsZero() {
		d.accepted = append(d.accepted, own)
	}
	for _, s := range extra {
		td, err := spiffeid.TrustDomainFromString(s)
		if err != nil {
			return Domains{}, fmt.Errorf("parse trust domain %q: %w", s, err)
		}
		d.accepted = append(d.accepted, td)
	}
	return d, nil
}

// Names lists the accepted trust domains, own first.
func (d Domains) Names() []string {
	var names []string
	for _, td := range d.all() {
		names = append(names, td.Name())
	}
	return names
}

// all returns the accepted trust domains, own first.
func (d Domains) all() []spiffeid.TrustDomain {
	if d.more == nil {
		return d.accepted
	}
	all := slices.Clone(d.accepted)
	for _, td := range d.more.Accepted() {
		if !slices.Contains(all, td) {
			all = append(all, td)
		}
	}
	return all
}

// Check returns the swarm identity of id if its trust domain is accepted and its role is one of roles (any
// swarm role if none are given). Errors wrap ErrNotAuthorized and are fit for the peer to read.
func (d Domains) Check(id spiffeid.ID, roles ...Role) (ID, error) {
	if !d.has(id.TrustDomain()) {
		return ID{}, fmt.Errorf("%w: trust domain of %q is not accepted (accepted: %s; add others with --trust-domain)",
			ErrNotAuthorized, id, strings.Join(d.Names(), ", "))
	}
	parsed, err := ParseID(id)
	if err != nil {
		return ID{}, fmt.Errorf("%w: %w", ErrNotAuthorized, err)
	}
	if len(roles) > 0 && !hasRole(roles, parsed.role) {
		return ID{}, fmt.Errorf("%w: role %s of %q may not do this (allowed: %s)", ErrNotAuthorized, parsed.role, id, joinRoles(roles))
	}
	return parsed, nil
}

// Authorize is Check in the form that go-spiffe's TLS configurations take.
func (d Domains) Authorize(roles ...Role) tlsconfig.Authorizer {
	return tlsconfig.AdaptMatcher(func(id spiffeid.ID) error {
		_, err := d.Check(id, roles...)
		return err
	})
}

func (d Domains) has(td spiffeid.TrustDomain) bool {
	return slices.Contains(d.all(), td)
}

func hasRole(roles []Role, r Role) bool {
	for _, x := range roles {
		if x == r {
			return true
		}
	}
	return false
}

func joinRoles(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
