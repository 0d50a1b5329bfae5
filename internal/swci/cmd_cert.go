package swci

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// defaultCADir is where cert init makes a CA unless it is told otherwise.
const defaultCADir = "swarm-ca"

func certCommands() []*Command {
	return []*Command{
		{
			Pattern: "cert init [DIR]", Group: "This host",
			Summary: "Make a certificate authority for a swarm without SPIRE",
			Details: "Makes DIR (swarm-ca if not given) with ca.pem, which every node gets, and ca-key.pem, which must never leave this machine: whoever has it can act as any node. The CA names the trust domain (--trust-domain, swarm.learning if not given) and lives for ten years. An existing CA is never written over.\n\n" +
				"With --cn-roles the CA is for certificates without SPIFFE ID, whose role is in the CN, for nodes that run with --cert-roles cn. Prefer SPIFFE IDs unless you must use existing CN certificates: a CA is then trusted for its own trust domain only, and a certificate can be one node's alone.",
			Example: "cert init swarm-ca --trust-domain hospital-a.example",
			Flags:   []cli.Flag{&cli.BoolFlag{Name: "cn-roles", Usage: "make a CA for certificates with the role in the CN"}},
			JSON:    madeCAJSON{},
			Run:     certInit,
		},
		{
			Pattern: "cert issue [ID]", Group: "This host",
			Summary: "Issue a certificate for a node, or renew it",
			Details: "ID is ROLE/NAME or ROLE, where ROLE is sn, sl, swop, swci or audit: sl/hospital-a is for the node with --name hospital-a alone, sl for any SL; audit/dr-who is for an auditor, whose swarmctl reads and changes nothing. Writes a certificate and its key (mode 0600) into --out; issuing again replaces both, which a running node notices within seconds.\n\n" +
				"--cn makes a certificate without SPIFFE ID instead, by a CA that cert init --cn-roles made.",
			Example: "cert issue sl/hospital-a --host sl.hospital-a.example --days 90",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "dir", Value: defaultCADir, Usage: "folder `DIR` of the CA"},
				&cli.StringSliceFlag{Name: "host", Usage: "host name or IP address `HOST` of the node, for other programs that check it; repeatable"},
				&cli.IntFlag{Name: "days", Value: certs.DefaultDays, Usage: "`N` days until it expires"},
				&cli.StringFlag{Name: "out", Value: ".", Usage: "folder `DIR` for certificate and key"},
				&cli.StringFlag{Name: "cn", Usage: "common name `CN`, with the role, such as SL-2"},
			},
			JSON: issuedJSON{},
			Run:  certIssue,
		},
		{
			Pattern: "cert show FILE", Group: "This host",
			Summary: "Show what certificates in a file say",
			Details: "Prints for each certificate of a PEM file whom it is for, the SPIFFE ID or the role in its CN, host names, validity, and who signed it. Verifies nothing.",
			Example: "cert show sl-hospital-a-cert.pem",
			JSON:    certsJSON{},
			Run:     certShow,
		},
	}
}

// madeCAJSON is `cert init -o json`.
type madeCAJSON struct {
	Cert        string `json:"cert" doc:"file of the CA certificate"`
	Key         string `json:"key" doc:"file of its private key"`
	TrustDomain string `json:"trust_domain" doc:"empty with --cn-roles"`
	NotAfter    string `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
}

// issuedJSON is `cert issue -o json`.
type issuedJSON struct {
	Cert     string `json:"cert" doc:"file of the certificate"`
	Key      string `json:"key" doc:"file of its private key"`
	CACert   string `json:"cacert" doc:"file of the CA certificate that signed it"`
	SpiffeID string `json:"spiffe_id" doc:"empty with --cn"`
	NotAfter string `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
}

// certsJSON is `cert show -o json`.
type certsJSON struct {
	Certificates []certJSON `json:"certificates" doc:"in the order of the file"`
}

// certJSON is one certificate of `cert show -o json`.
type certJSON struct {
	Subject   string   `json:"subject" doc:"whom it is for"`
	SpiffeID  string   `json:"spiffe_id" doc:"empty if it has none; a CA's names a trust domain"`
	CNRole    string   `json:"cn_role" doc:"role that its CN tells, empty for none or if it has a SPIFFE ID"`
	Domain    string   `json:"cn_domain" doc:"of a CA that names no trust domain: the one that it stands for where certificates have no SPIFFE ID"`
	Hosts     []string `json:"hosts" doc:"DNS names and IP addresses"`
	CA        bool     `json:"ca" doc:"it may sign others"`
	Key       string   `json:"key_type" doc:"kind of its key"`
	Issuer    string   `json:"issuer" doc:"who signed it"`
	NotBefore string   `json:"not_before" doc:"when it becomes valid; RFC 3339, UTC"`
	NotAfter  string   `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
	Problem   string   `json:"problem" doc:"why no node takes it as it is now; empty if nothing is wrong with it alone"`
}

func certInit(_ context.Context, s *Session, args Args) error {
	dir := first(args.Value("DIR"), defaultCADir)
	domain := certs.DefaultTrustDomain
	if given := args.Opts.StringSlice("trust-domain"); len(given) > 0 {
		domain = given[0]
	}
	if args.Opts.Bool("cn-roles") {
		if args.Opts.IsSet("trust-domain") {
			return exit.New(exit.Usage, "leave one of them out", "a CA for --cn-roles names no --trust-domain")
		}
		domain = ""
	}
	ca, err := certs.InitCA(dir, domain, s.Env.Now())
	switch {
	case errors.Is(err, certs.ErrCAExists):
		return &exit.Error{Status: exit.Conflict, Err: err, Hint: "issue certificates by it, or name another folder: a new CA would make all its certificates worthless"}
	case err != nil:
		return err
	}
	out := madeCAJSON{filepath.Join(dir, certs.CACertFile), filepath.Join(dir, certs.CAKeyFile), ca.TrustDomain(), rfc3339(ca.Cert().NotAfter)}
	if s.JSON {
		return printJSON(s.Env.Stdout, out)
	}
	what, next := "trust domain "+out.TrustDomain, "swarmctl cert issue sn/sn-1"
	if domain == "" {
		what, next = "roles in the CN", "swarmctl cert issue --cn SN-1"
	}
	if dir != defaultCADir {
		next += " --dir " + dir
	}
	fmt.Fprintf(s.Env.Stdout, "made the CA of %s in %s: give %s to every node, keep %s here\n", what, text.Line(dir), text.Line(out.Cert), text.Line(out.Key))
	fmt.Fprintf(s.Env.Stderr, "next: %s\n", text.Line(next))
	return nil
}

func certIssue(_ context.Context, s *Session, args Args) error {
	o := args.Opts
	cfg := certs.IssueConfig{CN: o.String("cn"), Hosts: o.StringSlice("host"), Days: o.Int("days")}
	who := args.Value("ID")
	base := strings.ToLower(cfg.CN)
	switch {
	case (who == "") == (cfg.CN == ""):
		return exit.New(exit.Usage, "swarmctl cert issue sl/hospital-a, or swarmctl cert issue --cn SL-2", "give either ROLE/NAME or --cn")
	case who != "":
		role, name, named := strings.Cut(who, "/")
		r, err := identity.ParseRole(strings.ToLower(role))
		if err == nil && named {
			err = naming.CheckNode(name)
		}
		if err != nil {
			return &exit.Error{Status: exit.Usage, Err: fmt.Errorf("%q: %w", who, err), Hint: "ROLE/NAME, such as sl/hospital-a"}
		}
		cfg.Role, cfg.Name, base = r, name, strings.Trim(string(r)+"-"+name, "-")
	}
	if cfg.Days == 0 {
		return exit.New(exit.Usage, "", "--days 0: want 1 to 3650")
	}
	ca, err := certs.LoadCA(o.String("dir"))
	if err != nil {
		return &exit.Error{Status: exit.NotFound, Err: err, Hint: "make a CA by swarmctl cert init, or name its folder with --dir"}
	}
	issued, err := ca.Issue(cfg, s.Env.Now())
	if err != nil {
		return &exit.Error{Status: exit.Usage, Err: err}
	}
	if err := os.MkdirAll(o.String("out"), 0o755); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	out := issuedJSON{
		Cert: filepath.Join(o.String("out"), base+"-cert.pem"), Key: filepath.Join(o.String("out"), base+"-key.pem"),
		CACert: filepath.Join(o.String("dir"), certs.CACertFile), NotAfter: rfc3339(issued.Cert.NotAfter),
	}
	if len(issued.Cert.URIs) > 0 {
		out.SpiffeID = issued.Cert.URIs[0].String()
	}
	if err := issued.Write(out.Cert, out.Key); err != nil {
		return err
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, out)
	}
	fmt.Fprintf(s.Env.Stdout, "issued %s, valid until %s: %s, %s\n", first(out.SpiffeID, cfg.CN), out.NotAfter, text.Line(out.Cert), text.Line(out.Key))
	fmt.Fprintf(s.Env.Stderr, "next: %s\n", text.Line(useCert(cfg, out)))
	return nil
}

// useCert is the command that a certificate was issued for.
func useCert(cfg certs.IssueConfig, out issuedJSON) string {
	role, name := cfg.Role, cfg.Name
	options := fmt.Sprintf("--cert %s --key %s --cacert %s", out.Cert, out.Key, out.CACert)
	if cfg.CN != "" {
		role, _ = certs.RoleOfCN(cfg.CN) // it was checked when the certificate was issued
		options += " --cert-roles cn"
	}
	if name != "" && role != identity.RoleSWCI && role != identity.RoleAudit {
		options = "--name " + name + " " + options
	}
	switch role {
	case identity.RoleSN:
		return "swarmd run-sn " + options + " --host-ip ADDRESS --sentinel-ip ADDRESS"
	case identity.RoleSL:
		return "swarmd run-sl " + options + " --host-ip ADDRESS --sn-ip ADDRESS --model-dir DIR --model-program FILE"
	case identity.RoleSWCI:
		return "swarmctl list nodes --sn HOST:30304 " + options
	}
	if role == identity.RoleAudit {
		return "swarmctl get ledger --sn HOST:30304 --out ledger.jsonl " + options
	}
	return "start the node with " + options
}

func certShow(_ context.Context, s *Session, args Args) error {
	found, err := certs.ReadCertificates(args.Value("FILE"))
	if err != nil {
		return &exit.Error{Status: exit.NotFound, Err: err}
	}
	out := make([]certJSON, 0, len(found))
	for _, c := range found {
		out = append(out, describeCert(c, s.Env.Now()))
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, certsJSON{out})
	}
	for i, c := range out {
		if i > 0 {
			fmt.Fprintln(s.Env.Stdout)
		}
		c.print(s.Env.Stdout)
	}
	return nil
}

func describeCert(c *x509.Certificate, now time.Time) certJSON {
	out := certJSON{
		Subject: c.Subject.String(), CA: c.IsCA, Key: c.PublicKeyAlgorithm.String(), Issuer: c.Issuer.String(),
		NotBefore: rfc3339(c.NotBefore), NotAfter: rfc3339(c.NotAfter), Hosts: append([]string{}, c.DNSNames...),
	}
	for _, ip := range c.IPAddresses {
		out.Hosts = append(out.Hosts, ip.String())
	}
	if text := identity.Validity(c.NotBefore, c.NotAfter, now); text != "" {
		out.Problem = "the certificate " + text
	}
	if len(c.URIs) > 0 {
		id, err := identity.LeafID(c)
		if err != nil {
			out.Problem = err.Error()
			return out
		}
		out.SpiffeID = id.String()
		if _, err := identity.ParseID(id); err != nil && !c.IsCA {
			out.Problem = err.Error()
		}
		return out
	}
	if c.IsCA {
		out.Domain = certs.CADomain(c).Name()
	}
	if role, err := certs.RoleOfCN(c.Subject.CommonName); err == nil && !c.IsCA {
		out.CNRole = string(role)
	} else if !c.IsCA && out.Problem == "" {
		out.Problem = "it has neither a SPIFFE ID nor a CN that names a role"
	}
	return out
}

func (c certJSON) print(w io.Writer) {
	row := func(name, value string) { fmt.Fprintf(w, "%-10s  %s\n", name, text.Line(value)) }
	row("subject", first(c.Subject, "-"))
	switch {
	case c.CA && c.SpiffeID != "":
		row("authority", "of the trust domain "+strings.TrimPrefix(c.SpiffeID, "spiffe://")+", trusted for no other")
	case c.CA:
		row("authority", "names no trust domain: trusted for a node's own and those given with --trust-domain, or for all roles with --cert-roles cn")
		row("stands for", c.Domain+", where certificates are of the original's gen-cert")
	case c.SpiffeID != "":
		row("SPIFFE ID", c.SpiffeID)
	case c.CNRole != "":
		row("role", c.CNRole+" by its CN")
	}
	if len(c.Hosts) > 0 {
		row("hosts", strings.Join(c.Hosts, ", "))
	}
	row("valid", c.NotBefore+" to "+c.NotAfter)
	row("signed by", c.Issuer)
	row("key", c.Key)
	if c.Problem != "" {
		row("problem", c.Problem)
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
