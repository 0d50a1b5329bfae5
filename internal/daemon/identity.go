package daemon

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/node"
)

// certFlags are the options of an identity from files. The original's containers are given the same as SWARM_ID_*.
func certFlags() []cli.Flag {
	file := func(name, usage string) cli.Flag {
		f := stringFlag(name, usage)
		f.EnvVars = append(f.EnvVars, "SWARM_ID_"+f.EnvVars[0][len("SWARM_"):])
		return f
	}
	return []cli.Flag{
		file("cert", "PEM file with this node's certificate, instead of an agent; it is watched (see swarmctl cert)"),
		file("key", "PEM file with the certificate's private key"),
		file("cacert", "PEM file with the CA certificates to trust"),
		file("capath", "directory of PEM files with CA certificates to trust"),
		stringFlag("cert-roles", "what tells a certificate's role: spiffe (its SPIFFE ID, the default) or cn (its CN: SN-1, SL-2), the same on all nodes; certificates of the original's gen-cert need none"),
	}
}

// withCerts lets a node open its identity from files if its options name them, and reports whether they do.
func withCerts(o *start.Node, base *node.Common) (bool, error) {
	var given string
	for _, f := range [][2]string{{"cert", o.Cert}, {"key", o.Key}, {"cacert", o.CACert}, {"capath", o.CAPath}, {"cert-roles", o.Roles}} {
		if f[1] != "" {
			given = f[0]
			break
		}
	}
	if given == "" {
		return false, nil
	}
	for _, f := range [][2]string{{"identity", o.Identity}, {"socket-path", o.SocketPath}} {
		if f[1] != "" {
			return true, fmt.Errorf("--%s takes the identity from files, --%s from elsewhere: give one of the two", given, f[0])
		}
	}
	cfg := certs.FilesConfig{
		Cert: o.Cert, Key: o.Key, CACert: o.CACert, CAPath: o.CAPath, Roles: o.Roles, TrustDomains: base.TrustDomains, Prefix: base.SPIFFEPrefix,
		Log: base.Log.With("logger", "swarm.certs"),
	}
	base.OpenIdentity = func(ctx context.Context, role identity.Role, name string) (identity.Provider, error) {
		cfg := cfg
		cfg.Role, cfg.Name = role, name
		source, err := certs.OpenFiles(ctx, cfg)
		if err != nil {
			return nil, err // not a nil source, which would be a provider that is not nil
		}
		return source, nil
	}
	return true, nil
}

// tryFiles opens an identity from files once and closes it again: what is wrong with it is said before the slow search for a
// Python, or the probe of an image, begins.
func tryFiles(ctx context.Context, base node.Common, role identity.Role) error {
	source, err := base.OpenIdentity(ctx, role, base.Name)
	if err != nil {
		return err
	}
	return source.Close()
}
