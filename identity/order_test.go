package identity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// TestProveOrder: only what an operator's SVID that the bundles know has signed, as it is, is proven.
func TestProveOrder(t *testing.T) {
	a, err := rpctest.NewAuthority("a.example")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := rpctest.NewAuthority("a.example") // the name is right, the key is not
	if err != nil {
		t.Fatal(err)
	}
	judge := issued(t, a, "/swarm/sn", time.Hour)
	order := identity.Order{SwarmID: "s", Method: "AssignTask", Request: []byte("{}"), Nonce: []byte{1}, Ledger: "h", Length: 2, AskedMS: 3}
	for _, tt := range []struct {
		name, want string
		by         *rpctest.Source
		change     func(o *identity.Order)
	}{
		{"an operator", "", issued(t, a, "/swarm/swci/ann", time.Hour), nil},
		{"of a shared entry", "", issued(t, a, "/swarm/swci", time.Hour), nil},
		{"an SN", "is no operator", issued(t, a, "/swarm/sn", time.Hour), nil},
		{"no role", "is no operator", issued(t, a, "/other", time.Hour), nil},
		{"ended", "expired", issued(t, a, "/swarm/swci", -time.Second), nil},
		{"of another authority", "a.example", issued(t, foreign, "/swarm/swci", time.Hour), nil},
		{"another swarm", "did not sign", issued(t, a, "/swarm/swci", time.Hour), func(o *identity.Order) { o.SwarmID = "x" }},
		{"another time", "did not sign", issued(t, a, "/swarm/swci", time.Hour), func(o *identity.Order) { o.AskedMS++ }},
	} {
		svid, err := tt.by.GetX509SVID()
		if err != nil {
			t.Fatal(err)
		}
		signature, err := identity.SignWithSVID(svid, identity.OrderMessage(order))
		if err != nil {
			t.Fatal(err)
		}
		o := order
		if tt.change != nil {
			tt.change(&o)
		}
		id, err := identity.ProveOrder(judge, o, identity.RawChain(svid), signature)
		if tt.want == "" && (err != nil || id.String() != svid.ID.String()) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, %v; want %q", tt.name, id, err, tt.want)
		}
	}
	if _, err := identity.ProveOrder(judge, order, nil, nil); err == nil {
		t.Error("an order without certificates is proven")
	}
}

func issued(t *testing.T, a *rpctest.Authority, path string, life time.Duration) *rpctest.Source {
	t.Helper()
	s, err := a.Issue(path, life)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
