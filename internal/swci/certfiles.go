package swci

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// filesPrefix begins an identity that comes from files; a query with the options' names follows. So a context can carry
// it as any other identity.
const filesPrefix = "files:"

// certOptions are the options of an identity from files.
var certOptions = []string{"cert", "key", "cacert", "capath", "cert-roles"}

// certFlags are the global options of an identity from files, as swarmd has them.
func certFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "cert", Usage: "PEM `FILE` with swarmctl's certificate, instead of --identity"},
		&cli.StringFlag{Name: "key", Usage: "PEM `FILE` with the certificate's key"},
		&cli.StringFlag{Name: "cacert", Usage: "PEM `FILE` with the CA certificates to trust"},
		&cli.StringFlag{Name: "capath", Usage: "folder `DIR` of PEM files with CA certificates to trust"},
		&cli.StringFlag{Name: "cert-roles", Usage: "what tells a certificate's role: `KIND` spiffe or cn; as the nodes have it"},
	}
}

// fileIdentity returns the identity from files that options ask for, completed from the environment, and the one that
// the environment alone names; "" for none.
func fileIdentity(opts *cli.Context, getenv func(string) string) (asked, ambient string, err error) {
	q := url.Values{}
	for _, name := range certOptions {
		if v := opts.String(name); v != "" {
			q.Set(name, v)
		}
	}
	given := len(q) > 0
	if given && opts.IsSet("identity") {
		return "", "", exit.New(exit.Usage, "give one of the two", "--cert and its siblings take the identity from files, --identity from elsewhere")
	}
	for _, name := range certOptions {
		variable := cmdline.Variable(name)
		if v := first(getenv(variable), getenv(strings.Replace(variable, "SWARM_", "SWARM_ID_", 1))); v != "" && !q.Has(name) {
			q.Set(name, v)
		}
	}
	switch {
	case given:
		return filesPrefix + q.Encode(), "", nil
	case len(q) > 0:
		return "", filesPrefix + q.Encode(), nil
	}
	return "", "", nil
}

// openFiles opens an identity that fileIdentity returned.
func openFiles(ctx context.Context, target Context) (identity.Provider, identity.Domains, error) {
	q, err := url.ParseQuery(strings.TrimPrefix(target.Identity, filesPrefix))
	if err != nil {
		return nil, identity.Domains{}, exit.New(exit.Usage, "", "identity %q: %w", target.Identity, err)
	}
	prefix, err := identity.ParsePrefix(target.SPIFFEPrefix)
	if err != nil {
		return nil, identity.Domains{}, &exit.Error{Status: exit.Usage, Err: err}
	}
	source, err := certs.OpenFiles(ctx, certs.FilesConfig{
		Cert: q.Get("cert"), Key: q.Get("key"), CACert: q.Get("cacert"), CAPath: q.Get("capath"), Roles: q.Get("cert-roles"),
		Role: identity.RoleSWCI, Else: identity.RoleAudit, TrustDomains: target.TrustDomains, Prefix: prefix, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, identity.Domains{}, exit.New(exit.Usage, "swarmctl cert issue swci makes a certificate for swarmctl, swarmctl cert show FILE explains one", "open identity: %w", err)
	}
	domains, err := identity.DomainsOf(source, target.TrustDomains...)
	if err != nil {
		_ = source.Close()
		return nil, identity.Domains{}, &exit.Error{Status: exit.Usage, Err: err}
	}
	return source, domains, nil
}
