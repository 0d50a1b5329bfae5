package certs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

func TestRoleOfCN(t *testing.T) {
	for cn, want := range map[string]identity.Role{
		"SN-1": "sn", "sl-2": "sl", "Swop-1": "swop", "SWCI-host-3": "swci", "SL--": "sl", "sl- x": "sl",
		"": "", "SN": "", "SN-": "", "-1": "", "SNX-1": "", "SL_1": "", " SL-1": "", "1-SL": "", "SL\u00ad-1": "", "ſn-1": "", "SWOP\x00-1": "",
	} {
		if got, err := certs.RoleOfCN(cn); got != want || (err == nil) != (want != "") {
			t.Errorf("RoleOfCN(%q) = %q, %v; want %q", cn, got, err, want)
		}
	}
}

func FuzzRoleOfCN(f *testing.F) {
	f.Add("SN-1")
	f.Add("swop-")
	f.Fuzz(func(t *testing.T, cn string) {
		role, err := certs.RoleOfCN(cn)
		if err != nil {
			if role != "" || len(err.Error()) > 1000 {
				t.Errorf("%q: role %q with error %.200s", cn, role, err)
			}
			return
		}
		if _, err := identity.ParseRole(string(role)); err != nil || !strings.HasPrefix(strings.ToLower(cn), string(role)+"-") {
			t.Errorf("%q is of role %q", cn, role)
		}
	})
}

// FuzzFiles feeds one text to the readers of certificates, keys and CAs: whatever it is, they must return.
func FuzzFiles(f *testing.F) {
	ca := newAuthority(f, "ca")
	l := ca.issue("", "x", "spiffe://td/swarm/sl")
	f.Add(append(pemOf(l.chain...), keyPEM(f, l.key)...))
	f.Add(pemOf(ca.cert, ca.cert))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: x\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := certs.ReadCertificates(path)
		if (err == nil) != (len(found) > 0) {
			t.Errorf("%d certificates, %v", len(found), err)
		}
		for i := range 3 {
			cfg := files(t, l, ca.cert)
			*[]*string{&cfg.Cert, &cfg.Key, &cfg.CACert}[i] = path
			if s, err := certs.OpenFiles(t.Context(), cfg); err == nil {
				if s.ID().IsZero() {
					t.Error("opened without an identity")
				}
				_ = s.Close()
			}
		}
	})
}
