package swci

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/handshake"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

func identityCommands() []*Command {
	return []*Command{
		{
			Pattern: "identity", Group: "Identity", Shell: true,
			Summary: "Show swarmctl's own identity, and whom it trusts",
			Details: "Prints swarmctl's SPIFFE ID and role, where its certificate comes from, how long it is valid and when it was renewed, and every trust domain whose CA certificates are known or which --trust-domain names. A node is accepted if its trust domain is accepted (swarmctl's own, and those of --trust-domain) and its CA certificates are known.\n\n" +
				"Asks no SN. Ends with exit code 1 if the certificate is not valid now.",
			Example: "identity",
			JSON:    identityJSON{},
			Run:     showIdentity,
		},
		{
			Pattern: "identity check ADDRESS", Group: "Identity", Shell: true,
			Summary: "Connect to a node step by step, and say why it fails",
			Details: "Connects to ADDRESS, a HOST:PORT of an SN's API or of the port for traffic between nodes, and checks step by step: the name, the connection, the protocol, the certificate that it shows, whether it is accepted here, whether swarmctl's is accepted there, role, swarm, and for an API its health. If a certificate is refused, it shows its content.\n\n" +
				"Ends with exit code 0 only if all steps succeed.",
			Example: "identity check 10.0.0.1:30304",
			JSON:    handshake.Result{},
			Run:     checkIdentity,
		},
	}
}

// identityJSON is `identity -o json`.
type identityJSON struct {
	SpiffeID     string            `json:"spiffe_id" doc:"swarmctl's"`
	Role         string            `json:"role" doc:"swci"`
	Source       string            `json:"source" doc:"where the certificate comes from, in words"`
	Valid        bool              `json:"valid" doc:"the certificate is valid now"`
	NotBefore    *string           `json:"not_before" doc:"when its life began; RFC 3339, UTC"`
	NotAfter     *string           `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
	RenewBy      *string           `json:"renew_by" doc:"when a third of its life is left: a node whose certificate is older is not healthy; RFC 3339, UTC"`
	Updated      *string           `json:"updated" doc:"when certificate or CA certificates came last; RFC 3339, UTC"`
	TrustDomains []trustDomainJSON `json:"trust_domains" doc:"own first, then by name"`
	Warnings     []string          `json:"warnings" doc:"for people"`
}

type trustDomainJSON struct {
	Name        string   `json:"name" doc:"the trust domain's"`
	Own         bool     `json:"own" doc:"swarmctl's own"`
	Accepted    bool     `json:"accepted" doc:"own, or named with --trust-domain"`
	Authorities []caJSON `json:"authorities" doc:"its CA certificates that are known; without one no node of it can be verified"`
}

type caJSON struct {
	Subject  string  `json:"subject" doc:"of the CA certificate"`
	NotAfter *string `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
}

// identify opens swarmctl's identity for a command about identities.
func (s *Session) identify(ctx context.Context, args Args) (Context, identity.Provider, identity.Domains, error) {
	target, err := s.anyTarget(args.Opts)
	if err == nil && target.Identity == "" {
		err = errNoIdentity()
	}
	if err != nil {
		return Context{}, nil, identity.Domains{}, err
	}
	source, domains, err := s.Identify(ctx, target)
	return target, source, domains, err
}

func showIdentity(ctx context.Context, s *Session, args Args) error {
	_, source, domains, err := s.identify(ctx, args)
	if err != nil {
		return err
	}
	defer source.Close()
	st, now := source.Status(), s.Env.Now()
	trusted := trustDomains(st, source, domains)
	if s.JSON {
		err = printJSON(s.Env.Stdout, identityToJSON(st, trusted, now))
	} else {
		err = printIdentity(s.Env.Stdout, st, trusted, now)
	}
	if err != nil {
		return err
	}
	if why := identity.Validity(st.NotBefore, st.NotAfter, now); why != "" {
		return exit.New(exit.Failed, "", "the certificate %s", why)
	}
	return nil
}

// trustDomain is one that is accepted, or whose CA certificates are known.
type trustDomain struct {
	name          string
	own, accepted bool
	authorities   []*x509.Certificate
}

// trustDomains lists them, own first.
func trustDomains(st identity.Status, source identity.Source, domains identity.Domains) []trustDomain {
	own := st.ID.SPIFFE().TrustDomain().Name()
	names := slices.Concat(st.Domains, domains.Names())
	slices.Sort(names)
	names = slices.Compact(names)
	if i := slices.Index(names, own); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, own)
	}
	var out []trustDomain
	for _, name := range names {
		d := trustDomain{name: name, own: name == own, accepted: slices.Contains(domains.Names(), name)}
		if td, err := spiffeid.TrustDomainFromString(name); err == nil {
			if b, err := source.GetX509BundleForTrustDomain(td); err == nil {
				d.authorities = b.X509Authorities()
			}
		}
		out = append(out, d)
	}
	return out
}

func identityToJSON(st identity.Status, trusted []trustDomain, now time.Time) identityJSON {
	out := identityJSON{
		SpiffeID: st.ID.String(), Role: string(st.ID.Role()), Source: st.Origin, Valid: identity.Validity(st.NotBefore, st.NotAfter, now) == "",
		NotBefore: stampOf(st.NotBefore), NotAfter: stampOf(st.NotAfter), RenewBy: stampOf(identity.RenewalDeadline(st.NotBefore, st.NotAfter)),
		Updated: stampOf(st.Updated), TrustDomains: []trustDomainJSON{}, Warnings: append([]string{}, identityWarnings(st, trusted, now)...),
	}
	for _, d := range trusted {
		j := trustDomainJSON{Name: d.name, Own: d.own, Accepted: d.accepted, Authorities: []caJSON{}}
		for _, ca := range d.authorities {
			j.Authorities = append(j.Authorities, caJSON{ca.Subject.String(), stampOf(ca.NotAfter)})
		}
		out.TrustDomains = append(out.TrustDomains, j)
	}
	return out
}

func stampOf(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return stamp(t.UnixMilli())
}

func printIdentity(w io.Writer, st identity.Status, trusted []trustDomain, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "identity  %s\n", st.ID)
	fmt.Fprintf(&b, "role      %s\n", st.ID.Role())
	fmt.Fprintf(&b, "source    %s\n", text.Line(st.Origin))
	fmt.Fprintf(&b, "valid     from %s\n", moment(st.NotBefore, now))
	fmt.Fprintf(&b, "          until %s, %s\n", moment(st.NotAfter, now), left(st.NotAfter, now))
	if !st.Updated.IsZero() {
		fmt.Fprintf(&b, "renewed   %s\n", moment(st.Updated, now))
	}
	fmt.Fprintf(&b, "renew by  %s\n", moment(identity.RenewalDeadline(st.NotBefore, st.NotAfter), now))
	title := "trusts    "
	for _, d := range trusted {
		fmt.Fprintf(&b, "%s%s: %s\n", title, text.Line(d.name), d.words())
		for _, ca := range d.authorities {
			fmt.Fprintf(&b, "            CA %s, until %s\n", text.Line(identity.CertName(ca)), moment(ca.NotAfter, now))
		}
		title = "          "
	}
	for _, warning := range identityWarnings(st, trusted, now) {
		fmt.Fprintf(&b, "warning   %s\n", text.Line(warning))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// words says what a trust domain's nodes may expect here.
func (d trustDomain) words() string {
	known := fmt.Sprintf("%d CA certificates", len(d.authorities))
	if len(d.authorities) == 1 {
		known = "1 CA certificate"
	}
	switch {
	case d.accepted && len(d.authorities) == 0:
		return "accepted, but no CA certificate of it is known here: let the authorities federate"
	case d.own:
		return "own, accepted; " + known
	case d.accepted:
		return "accepted; " + known
	}
	return "NOT accepted (--trust-domain " + d.name + " would); " + known
}

func identityWarnings(st identity.Status, trusted []trustDomain, now time.Time) []string {
	out := health.Warnings(health.Facts{Identity: st}, now)
	for _, d := range trusted {
		for _, ca := range d.authorities {
			if w := identity.ExpiryWarning(ca.NotBefore, ca.NotAfter, now); w != "" {
				out = append(out, fmt.Sprintf("CA %s of %s: %s", identity.CertName(ca), d.name, w))
			}
		}
	}
	return out
}

// moment renders a moment in the user's words and in RFC 3339.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.In(now.Location()).Format("Mon 2 Jan 2006 15:04:05 MST") + " (" + t.UTC().Format(time.RFC3339) + ")"
}

func left(t, now time.Time) string {
	if !t.After(now) {
		return health.Words(now.Sub(t)) + " ago"
	}
	return health.Words(t.Sub(now)) + " left"
}

func checkIdentity(ctx context.Context, s *Session, args Args) error {
	address := args.Value("ADDRESS")
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return exit.New(exit.Usage, "give HOST:PORT, as 10.0.0.1:30304", "address %q is not valid", address)
	}
	target, source, domains, err := s.identify(ctx, args)
	if err != nil {
		return err
	}
	defer source.Close()
	res := handshake.New(handshake.Config{Source: source, Domains: domains, SwarmID: target.pinned(), Now: s.Env.Now}).Run(ctx, address, source.Status())
	if s.JSON {
		err = printJSON(s.Env.Stdout, res)
	} else {
		t := table{}
		for _, step := range res.Steps {
			word := "ok"
			if !step.OK {
				word = "FAILED"
			}
			t.add(word, step.Step, step.Detail)
		}
		err = t.print(s.Env.Stdout)
	}
	if err == nil && !res.OK {
		err = exit.New(exit.Failed, "", "the handshake with %s failed", text.Line(address))
	}
	return err
}
