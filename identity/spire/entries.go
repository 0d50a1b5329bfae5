package spire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/spire-api-sdk/proto/spire/api/types"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// AgentPath returns the path of the agent that hands out the identities of a role, /swarm/<role>-agent, or of one node,
// /swarm/<role>-agent/<name>.
func AgentPath(role identity.Role, name string) string {
	path := "/swarm/" + string(role) + "-agent"
	if name != "" {
		path += "/" + name
	}
	return path
}

// ParseNode reads ROLE/NAME, such as "sl/hospital-a", or ROLE alone, whose name is "".
func ParseNode(s string) (identity.Role, string, error) {
	roleName, name, named := strings.Cut(s, "/")
	role, err := identity.ParseRole(roleName)
	if err != nil {
		return "", "", fmt.Errorf("%q: want ROLE or ROLE/NAME: %w", s, err)
	}
	if named {
		if err := naming.CheckNode(name); err != nil {
			return "", "", fmt.Errorf("%q: %w", s, err)
		}
	}
	return role, name, nil
}

// roleDNS are the DNS names in the SVIDs of a role.
func roleDNS(role identity.Role) []string {
	if name := naming.RoleOf(string(role)).DNS; name != "" {
		return []string{name}
	}
	return nil
}

// plan is what the server should have, whatever its trust domain.
type plan struct {
	nodes     []string // as given
	entries   []content
	federates []string // names of trust domains
}

func newPlan(nodes, federates []string) (*plan, error) {
	p := &plan{}
	for _, role := range identity.Roles() {
		p.entries = append(p.entries, entryOf(role, ""))
	}
	for _, n := range nodes {
		role, name, err := ParseNode(n)
		if err != nil {
			return nil, fmt.Errorf("--node %w", err)
		}
		if name == "" {
			return nil, fmt.Errorf("--node %s: give a name, such as %s/hospital-a; the role's common entry is always there", n, n)
		}
		if slices.Contains(p.nodes, n) {
			continue
		}
		p.nodes = append(p.nodes, n)
		p.entries = append(p.entries, entryOf(role, name))
	}
	for _, f := range federates {
		td, err := spiffeid.TrustDomainFromString(f)
		if err != nil {
			return nil, fmt.Errorf("--federates-with %s: %w", f, err)
		}
		if !slices.Contains(p.federates, td.Name()) {
			p.federates = append(p.federates, td.Name())
		}
	}
	return p, nil
}

// taker is the role by which the agent's plugin knows the program that takes a role: it sees swarmctl, and not what it is for.
func taker(role identity.Role) identity.Role {
	if naming.RoleOf(string(role)).Shell {
		return identity.RoleSWCI
	}
	return role
}

// entryOf is the entry of a role, or of one of its nodes. Its IDs have no trust domain yet.
func entryOf(role identity.Role, name string) content {
	c := content{
		ID: "swarm." + string(role), SPIFFEID: "/swarm/" + string(role), ParentID: AgentPath(role, name),
		Selectors: []string{"swarm:node-type:" + string(taker(role))}, DNSNames: roleDNS(role),
	}
	if name != "" {
		c.ID += "." + name
		c.SPIFFEID += "/" + name
		// Names of nodes are freer than those of hosts; an SVID is looked at for its SPIFFE ID anyway.
		if lower := strings.ToLower(name); validDNS(lower) {
			c.DNSNames = append(c.DNSNames, lower)
		}
	}
	return c
}

// validDNS reports whether SPIRE takes the lower-case name for a DNS name.
func validDNS(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.Contains(label, "_") ||
			len(label) >= 4 && label[2:4] == "--" {
			return false
		}
	}
	return true
}

// in returns the entry with whole SPIFFE IDs.
func (c content) in(trustDomain string) content {
	c.SPIFFEID = "spiffe://" + trustDomain + c.SPIFFEID
	c.ParentID = "spiffe://" + trustDomain + c.ParentID
	return c
}

// content is all of an entry that its author chooses. Two entries are the same if their JSON is.
type content struct {
	ID            string   `json:"id"`
	SPIFFEID      string   `json:"spiffe_id"`
	ParentID      string   `json:"parent_id"`
	Selectors     []string `json:"selectors"`
	DNSNames      []string `json:"dns_names,omitempty"`
	FederatesWith []string `json:"federates_with,omitempty"`
	X509SVIDTTL   int32    `json:"x509_svid_ttl,omitempty"` // seconds
	JWTSVIDTTL    int32    `json:"jwt_svid_ttl,omitempty"`  // seconds
	ExpiresAt     int64    `json:"expires_at,omitempty"`    // seconds since 1970
	Admin         bool     `json:"admin,omitempty"`
	Downstream    bool     `json:"downstream,omitempty"`
	StoreSVID     bool     `json:"store_svid,omitempty"`
	Hint          string   `json:"hint,omitempty"`
}

func contentOf(e *types.Entry) content {
	c := content{
		ID: e.GetId(), SPIFFEID: idText(e.GetSpiffeId()), ParentID: idText(e.GetParentId()),
		DNSNames: slices.Clone(e.GetDnsNames()), FederatesWith: slices.Sorted(slices.Values(e.GetFederatesWith())),
		X509SVIDTTL: e.GetX509SvidTtl(), JWTSVIDTTL: e.GetJwtSvidTtl(), ExpiresAt: e.GetExpiresAt(),
		Admin: e.GetAdmin(), Downstream: e.GetDownstream(), StoreSVID: e.GetStoreSvid(), Hint: e.GetHint(),
	}
	for _, s := range e.GetSelectors() {
		c.Selectors = append(c.Selectors, s.GetType()+":"+s.GetValue())
	}
	slices.Sort(c.Selectors)
	return c
}

func idText(id *types.SPIFFEID) string { return "spiffe://" + id.GetTrustDomain() + id.GetPath() }

func idProto(text string) *types.SPIFFEID {
	domain, path, _ := strings.Cut(strings.TrimPrefix(text, "spiffe://"), "/")
	return &types.SPIFFEID{TrustDomain: domain, Path: "/" + path}
}

// proto is the entry as the API takes it. What our entries never set stays unset.
func (c content) proto() *types.Entry {
	e := &types.Entry{Id: c.ID, SpiffeId: idProto(c.SPIFFEID), ParentId: idProto(c.ParentID), DnsNames: c.DNSNames, FederatesWith: c.FederatesWith}
	for _, s := range c.Selectors {
		kind, value, _ := strings.Cut(s, ":")
		e.Selectors = append(e.Selectors, &types.Selector{Type: kind, Value: value})
	}
	return e
}

func (c content) same(other content) bool { return c.text() == other.text() }

func (c content) text() string {
	raw, err := json.Marshal(c)
	if err != nil {
		return err.Error() // strings and numbers always marshal
	}
	return string(raw)
}

// command is the call of spire-server that makes the entry ("create") or makes an entry into this ("update").
func (c content) command(verb, socket string) string {
	args := []string{"spire-server", "entry", verb, "-socketPath", socket, "-entryID", c.ID, "-parentID", c.ParentID, "-spiffeID", c.SPIFFEID}
	for _, s := range c.Selectors {
		args = append(args, "-selector", s)
	}
	for _, d := range c.DNSNames {
		args = append(args, "-dns", d)
	}
	for _, f := range c.FederatesWith {
		args = append(args, "-federatesWith", "spiffe://"+f)
	}
	for _, o := range []struct {
		name  string
		value int64
	}{{"-x509SVIDTTL", int64(c.X509SVIDTTL)}, {"-jwtSVIDTTL", int64(c.JWTSVIDTTL)}, {"-entryExpiry", c.ExpiresAt}} {
		if o.value != 0 {
			args = append(args, o.name, strconv.FormatInt(o.value, 10))
		}
	}
	for _, o := range []struct {
		name string
		on   bool
	}{{"-admin", c.Admin}, {"-downstream", c.Downstream}, {"-storeSVID", c.StoreSVID}} {
		if o.on {
			args = append(args, o.name)
		}
	}
	if c.Hint != "" {
		args = append(args, "-hint", c.Hint)
	}
	for i, a := range args {
		args[i] = shellWord(a)
	}
	return strings.Join(args, " ")
}

func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// record remembers what swarmd has made, in the state directory, so that what an operator changed or deleted since is not
// undone.
type record struct {
	path    string
	entries map[string]content // by ID, as swarmd last wrote them
}

func openRecord(path string) (*record, error) {
	r := &record{path: path, entries: map[string]content{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record of entries: %w", err)
	}
	var list []content
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read record of entries: %s is damaged: delete it, then entries that were deleted on purpose must be deleted again", path)
	}
	for _, c := range list {
		r.entries[c.ID] = c
	}
	return r, nil
}

// put remembers an entry, on disk when it returns.
func (r *record) put(c content) error {
	r.entries[c.ID] = c
	return r.save()
}

func (r *record) save() error {
	list := make([]content, 0, len(r.entries))
	for _, c := range r.entries {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b content) int { return cmp.Compare(a.ID, b.ID) })
	raw, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("write record of entries: %w", err)
	}
	if err := atomicfile.Replace(r.path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write record of entries: %w", err)
	}
	return nil
}
