package identity_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
)

func TestParseID(t *testing.T) {
	tests := []struct {
		in         string
		role, name string
		ok         bool
	}{
		{"spiffe://d/swarm/sl", "sl", "", true},
		{"spiffe://d/swarm/sn/node-1", "sn", "node-1", true},
		{"spiffe://d/swarm/apls", "", "", false},
		{"spiffe://d/swarm", "", "", false},
		{"spiffe://d/swarmx/sl", "", "", false},
		{"spiffe://d/swarm/sl/a/b", "", "", false},
		{"spiffe://d/swarm/sl/-a", "", "", false},
		{"spiffe://d/other/swarm/sl", "", "", false},
		{"https://d/swarm/sl", "", "", false},
	}
	for _, tt := range tests {
		id, err := identity.ParseIDString(tt.in)
		if (err == nil) != tt.ok || string(id.Role()) != tt.role || id.NodeName() != tt.name {
			t.Errorf("ParseIDString(%q) = %v %q %q, %v", tt.in, id, id.Role(), id.NodeName(), err)
		}
	}
	named, _ := identity.ParseIDString("spiffe://d/swarm/sl/a")
	shared, _ := identity.ParseIDString("spiffe://d/swarm/sl")
	if !named.MaySpeakFor("a") || named.MaySpeakFor("b") || !shared.MaySpeakFor("b") || (identity.ID{}).MaySpeakFor("b") {
		t.Error("MaySpeakFor is wrong")
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("spiffe://d/swarm/sn/x")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := identity.ParseIDString(s)
		if err == nil && (id.String() != s || id.NodeName() != "" && naming.CheckNode(id.NodeName()) != nil) {
			t.Errorf("parsed %q to %q", s, id)
		}
	})
}

func TestDomains(t *testing.T) {
	d, err := identity.NewDomains(spiffeid.RequireTrustDomainFromString("own"), "partner")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		id    string
		roles []identity.Role
		ok    bool
	}{
		{"spiffe://own/swarm/sn", nil, true},
		{"spiffe://partner/swarm/sl/a", []identity.Role{identity.RoleSL}, true},
		{"spiffe://own/swarm/sl", []identity.Role{identity.RoleSN}, false},
		{"spiffe://stranger/swarm/sn", nil, false},
		{"spiffe://own/db", nil, false},
	} {
		if _, err := d.Check(spiffeid.RequireFromString(tt.id), tt.roles...); (err == nil) != tt.ok {
			t.Errorf("Check(%s, %v): %v", tt.id, tt.roles, err)
		}
	}
	if _, err := (identity.Domains{}).Check(spiffeid.RequireFromString("spiffe://own/swarm/sn")); err == nil {
		t.Error("no domains accept a peer")
	}
}

func TestNodeKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	key, err := identity.LoadOrCreateNodeKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.LoadOrCreateNodeKey(dir)
	if err != nil || !key.Equals(again) {
		t.Fatalf("second load: %v", err)
	}
	id, _ := identity.PeerID(key)
	msg := identity.RegistrationMessage([]byte("nonce"), []byte("exporter"), "swarm", "name", identity.RoleSL, id.String())
	sig, _ := key.Sign(msg)
	if err := identity.VerifyNodeSignature(id.String(), msg, sig); err != nil {
		t.Error(err)
	}
	if err := identity.VerifyNodeSignature(id.String(), append(msg, 0), sig); err == nil {
		t.Error("a changed message verified")
	}
	path := filepath.Join(dir, "node.key")
	for name, spoil := range map[string]func() error{
		"mode":    func() error { return os.Chmod(path, 0o644) },
		"damaged": func() error { return os.WriteFile(path, []byte("junk"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := identity.LoadOrCreateNodeKey(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.Chmod(path, 0o600)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.LoadOrCreateNodeKey(dir); err != nil {
		t.Errorf("a directory that has known no swarm: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := identity.PinSwarmID(dir, strings.Repeat("a", 32)); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.LoadOrCreateNodeKey(dir); err == nil || !strings.Contains(err.Error(), path+" is missing") {
		t.Errorf("a key that was taken away: %v", err)
	}
}

func TestStateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d, err := identity.OpenStateDir(dir, "sl-1", identity.RoleSL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := identity.OpenStateDir(dir, "sl-1", identity.RoleSL); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second open: %v", err)
	}
	const a, b = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	for _, id := range []string{a, a} {
		if err := identity.PinSwarmID(dir, id); err != nil {
			t.Error(err)
		}
	}
	if got, err := identity.PinnedSwarmID(dir); err != nil || got != a {
		t.Errorf("pinned %q, %v", got, err)
	}
	if err := identity.PinSwarmID(dir, b); err == nil || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), b) {
		t.Errorf("pin of another swarm: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.OpenStateDir(dir, "sl-2", identity.RoleSL); err == nil || !strings.Contains(err.Error(), "belongs to node sl-1") {
		t.Errorf("open by another node: %v", err)
	}
	if d, err = identity.OpenStateDir(dir, "sl-1", identity.RoleSL); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
}

func TestMessagesDiffer(t *testing.T) {
	a := identity.OwnershipMessage("s", "ab", "c")
	b := identity.OwnershipMessage("s", "a", "bc")
	if bytes.Equal(a, b) {
		t.Error("fields run together")
	}
}
