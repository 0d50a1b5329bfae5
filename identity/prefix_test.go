package identity_test

import (
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
)

func TestPrefix(t *testing.T) {
	for _, tt := range []struct {
		prefix, id, want string // want "": refused
	}{
		{"", "spiffe://td/swarm/sl/a", "spiffe://td/swarm/sl/a"},
		{"", "spiffe://td/other", "spiffe://td/other"}, // whoever asks whether it is a swarm's says no
		{"/swarm", "spiffe://td/swarm/sn", "spiffe://td/swarm/sn"},
		{"/swarm/", "spiffe://td/swarm/sn", "spiffe://td/swarm/sn"},
		{"/", "spiffe://td/sn", "spiffe://td/swarm/sn"},
		{"/", "spiffe://td/sl/hospital-a", "spiffe://td/swarm/sl/hospital-a"},
		{"/", "spiffe://td/swarm/sn", ""},
		{"/", "spiffe://td/db", ""},
		{"/", "spiffe://td", ""},
		{"/ml/swarm", "spiffe://td/ml/swarm/swci", "spiffe://td/swarm/swci"},
		{"/ml/swarm", "spiffe://td/ml/swarmx/swci", ""},
		{"/ml/swarm", "spiffe://td/swarm/swci", ""},
		{"/ml/swarm", "spiffe://td/ml/swarm/sl/a/b", ""},
	} {
		p, err := identity.ParsePrefix(tt.prefix)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Read(spiffeid.RequireFromString(tt.id))
		if tt.want == "" && (err == nil || !strings.Contains(err.Error(), "--spiffe-prefix")) {
			t.Errorf("prefix %q reads %s as %s, %v", tt.prefix, tt.id, got, err)
		}
		if tt.want != "" && (err != nil || got.String() != tt.want) {
			t.Errorf("prefix %q reads %s as %s, %v, want %s", tt.prefix, tt.id, got, err, tt.want)
		}
	}
	for _, bad := range []string{"swarm", "//", "/a//b", "/a b", "/../x", "/sl", "/swarm/sl", "/swop/ml"} {
		if p, err := identity.ParsePrefix(bad); err == nil || !strings.Contains(err.Error(), "--spiffe-prefix") {
			t.Errorf("prefix %q is taken as %q, %v", bad, p, err)
		}
	}
}
