package certs_test

import (
	"bytes"
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

// FuzzPEM feeds one text to the readers of certificates and keys: whatever it is, they must return, and never take less
// than the whole of it.
func FuzzPEM(f *testing.F) {
	ca := newAuthority(f, "ca")
	l := ca.issue("", "x", "spiffe://td/swarm/sl")
	pair := append(pemOf(l.chain...), keyPEM(f, l.key)...)
	f.Add(pair)
	f.Add(pair[:len(pair)-40])
	f.Add(pemOf(ca.cert, ca.cert))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: x\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 3
		found, err := certs.ParseCertificates(data, most)
		if err != nil && found != nil || len(found) > most {
			t.Errorf("%d certificates, %v", len(found), err)
		}
		if err == nil && bytes.Count(data, []byte("\n-----BEGIN CERTIFICATE-----\n")) > len(found) {
			t.Errorf("%d of the certificates were taken", len(found))
		}
		key, err := certs.ParseKey(data)
		if (err == nil) != (key != nil) {
			t.Errorf("key %v, %v", key, err)
		}
		if key != nil {
			for _, c := range found {
				certs.Belongs(key, c)
			}
		}
	})
}
