package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/metrics"
)

// openOther serves the metrics of what is no node.
func openOther(t *testing.T, role identity.Role, svid func() identity.Status) (*metrics.Server, string) {
	t.Helper()
	cfg := config(free(t))
	cfg.Name, cfg.Role, cfg.Health, cfg.SVID = string(role), role, nil, svid
	s, err := metrics.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, cfg.Address
}

// openAuthority serves the metrics of an authority that has issued something.
func openAuthority(t *testing.T) string {
	t.Helper()
	s, at := openOther(t, metrics.RoleAuthority, nil)
	s.Authority(func() embedded.Status {
		return embedded.Status{CANotAfter: expires, Sockets: map[string]embedded.Socket{"sl": {Issued: 3, Workloads: 2}, "sn": {}}}
	})
	return at
}

// openSPIRE serves the metrics of a SPIRE server, with what is to be told what it has.
func openSPIRE(t *testing.T) (at string, answers func(spire.Count)) {
	t.Helper()
	s, at := openOther(t, metrics.RoleSpireServer, nil)
	return at, s.SpireServer()
}

// TestAuthority: who issues identities tells of what was issued, and nothing of a node.
func TestAuthority(t *testing.T) {
	body := read(t, openAuthority(t))
	has(t, body, `swarmd_node_info{name="authority",role="authority"} 1`, `swarmd_svids_issued_total{role="sl"} 3`, `swarmd_svids_issued_total{role="sn"} 0`, `swarmd_workloads{role="sl"} 2`,
		"swarmd_ca_expiry_timestamp_seconds 1.9e+09")
	for _, of := range []string{"swarmd_node_healthy", "swarmd_svid_expiry", "swarmd_peer_bytes", "swarmd_streams"} {
		if strings.Contains(body, of) {
			t.Errorf("an authority has %s", of)
		}
	}
	promtool(t, body)
}

// TestSpireServer: it is asked when somebody scrapes, not each time, and does not stand for more than it said.
func TestSpireServer(t *testing.T) {
	at, answers := openSPIRE(t)
	has(t, read(t, at), "swarmd_spire_server_up 0")
	asked := 0
	answers(func(ctx context.Context) (spire.Counts, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("it may take as long as it wants")
		}
		asked++
		return spire.Counts{Entries: 6, Agents: 2, CANotAfter: expires}, nil
	})
	body := read(t, at)
	has(t, body, "swarmd_spire_server_up 1", "swarmd_spire_registration_entries 6", "swarmd_spire_agents 2", "swarmd_ca_expiry_timestamp_seconds 1.9e+09")
	promtool(t, body)
	read(t, at)
	if asked != 1 {
		t.Errorf("two scrapes asked it %d times", asked)
	}
	at, answers = openSPIRE(t)
	answers(func(context.Context) (spire.Counts, error) { return spire.Counts{Entries: 1}, errors.New("it hangs") })
	if body := read(t, at); !strings.Contains(body, "swarmd_spire_server_up 0\n") || strings.Contains(body, "registration_entries") {
		t.Errorf("a server that does not answer:\n%s", ours(body))
	}
}

// TestIdentityOfWhatIsNoNode is told of as that of nodes is, which the alerts go by.
func TestIdentityOfWhatIsNoNode(t *testing.T) {
	_, at := openOther(t, identity.RoleSWCI, func() identity.Status {
		return identity.Status{NotBefore: time.Unix(1_800_000_000, 0), NotAfter: expires}
	})
	body := read(t, at)
	has(t, body, `swarmd_node_info{name="swci",role="swci"} 1`, "swarmd_svid_expiry_timestamp_seconds 1.9e+09", "swarmd_svid_not_before_timestamp_seconds 1.8e+09")
	promtool(t, body)
	_, at = openOther(t, identity.RoleSWCI, func() identity.Status { return identity.Status{} })
	if body := read(t, at); strings.Contains(body, "swarmd_svid_") {
		t.Errorf("without an SVID:\n%s", ours(body))
	}
}
