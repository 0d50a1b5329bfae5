package spire

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/swarmd/swarmd/identity"
)

// TestRefusal: what a server refuses is told by gRPC's code, whatever the words are and whoever wraps them.
func TestRefusal(t *testing.T) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		want := codes.OK
		switch c {
		case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.NotFound:
			want = c
		}
		text := "rpc error: any words"
		if c != codes.OK {
			text = "attest: " + status.Error(c, "any words").Error()
		}
		if got := refusal(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if got := statusCode(text); got != c {
			t.Errorf("%s: got code %s, want %s", text, got, c)
		}
	}
	if got := statusCode("rpc error: code = Strange desc = x"); got != codes.Unknown {
		t.Errorf("got %s, want Unknown", got)
	}
}

// TestParseSelectors reads the field as logrus writes it in JSON.
func TestParseSelectors(t *testing.T) {
	got, ok := parseSelectors(`[{"type":"unix","value":"uid:0"},{"type":"swarm","value":"node-type:sn"}]`)
	if !ok || len(got) != 2 || got[0] != "unix:uid:0" || got[1] != "swarm:node-type:sn" {
		t.Errorf("got %q, %t", got, ok)
	}
	if got, ok := parseSelectors("[]"); !ok || len(got) != 0 {
		t.Errorf("none: got %q, %t", got, ok)
	}
	if got, ok := parseSelectors(`[type:"unix"  value:"uid:0"]`); ok {
		t.Errorf("no JSON: got %q", got)
	}
}

// TestRemedyByAttestor: a join token is the remedy of those who join by one.
func TestRemedyByAttestor(t *testing.T) {
	for conf, want := range map[string]string{
		"": "swarmd spire-token sl/a",
		`plugins { NodeAttestor "join_token" { plugin_data {} } }`:                 "swarmd spire-token sl/a",
		`plugins { NodeAttestor "x509pop" { plugin_data { a = "b" } } KM "x" {} }`: "correct the NodeAttestor in agent.conf",
	} {
		file, err := parseAgentFile(conf)
		if err != nil {
			t.Fatal(err)
		}
		s := &agentSetup{cfg: AgentConfig{ConfigFile: "agent.conf", Role: "sl", NodeName: "a"}, file: file}
		if got := s.rejoin(""); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", conf, got, want)
		}
	}
}

// TestNoEntryNamesTheDomain: what an agent gives this process shows the trust domain also of an identity that it does not give.
func TestNoEntryNamesTheDomain(t *testing.T) {
	for last, want := range map[string]string{
		"workload API gives no SVID for /swarm/sl/sl-0 or /swarm/sl (it gives: spiffe://hospital-a.example/host): check the registration entries": "spiffe://hospital-a.example/swarm/sl/sl-0",
		"rpc error: code = PermissionDenied desc = no identity issued":                                                                            "spiffe://TRUST_DOMAIN/swarm/sl/sl-0",
	} {
		if got := noEntry(errors.New(last), wanted{role: identity.RoleSL, name: "sl-0", hosted: true}); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", last, got, want)
		}
	}
}
