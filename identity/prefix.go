package identity

import (
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Prefix stands before the role in the paths of the SPIFFE IDs that an organisation's own server gives: "/swarm" in
// spiffe://DOMAIN/swarm/sl, "/" in spiffe://DOMAIN/sl. A node reads such an ID as the swarm's own form where it takes it in, so that
// nothing else knows of prefixes. The zero value is the swarm's own, which leaves IDs as they are.
type Prefix struct{ path string }

// ParsePrefix reads what a user gave; "" is the swarm's own.
func ParsePrefix(s string) (Prefix, error) {
	path := strings.TrimSuffix(s, "/")
	if s != "" && !strings.HasPrefix(s, "/") {
		return Prefix{}, fmt.Errorf("--spiffe-prefix %q does not begin with a slash: give / for spiffe://DOMAIN/sl, %s for spiffe://DOMAIN%ssl", s, strings.TrimSuffix(pathPrefix, "/"), pathPrefix)
	}
	if path != "" {
		if err := spiffeid.ValidatePath(path); err != nil {
			return Prefix{}, fmt.Errorf("--spiffe-prefix %q: %w", s, err)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if _, err := ParseRole(segment); err == nil {
			return Prefix{}, fmt.Errorf("--spiffe-prefix %q has a role in it (%s): a node of that role could have another's name; give what stands before the role", s, segment)
		}
	}
	if s == "" || path+"/" == pathPrefix {
		return Prefix{}, nil
	}
	return Prefix{path + "/"}, nil
}

// String returns the prefix as it stands in paths, with a slash at its end.
func (p Prefix) String() string {
	if p.path == "" {
		return pathPrefix
	}
	return p.path
}

// Read returns what an ID of this prefix is in the swarm's own form. Of another prefix than the swarm's own it checks role and name too.
func (p Prefix) Read(id spiffeid.ID) (spiffeid.ID, error) {
	if p.path == "" {
		return id, nil
	}
	rest, ok := strings.CutPrefix(id.Path(), p.path)
	if !ok {
		return spiffeid.ID{}, fmt.Errorf("parse SPIFFE ID: %q is no swarm identity here: want spiffe://DOMAIN%sROLE[/NAME] (--spiffe-prefix)", id, p.path)
	}
	own, err := spiffeid.FromPath(id.TrustDomain(), pathPrefix+rest)
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("parse SPIFFE ID: %q: %w", id, err)
	}
	if _, err := ParseID(own); err != nil {
		return spiffeid.ID{}, fmt.Errorf("parse SPIFFE ID: %q: want spiffe://DOMAIN%sROLE[/NAME] (--spiffe-prefix): %w", id, p.path, err)
	}
	return own, nil
}
