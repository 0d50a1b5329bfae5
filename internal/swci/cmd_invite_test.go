package swci_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestSNsOfAnInvitation names the SNs that an invited host can reach, the leader first. What the whole command does is tested on real
// SPIRE, in internal/e2e/spire.
func TestSNsOfAnInvitation(t *testing.T) {
	node := func(name, role string, live, banned bool) *swarmv1.Node {
		return &swarmv1.Node{Name: name, Role: role, Host: name + ".example", ApiPort: 30304, FsPort: 30305, Live: live, Banned: banned}
	}
	proxied := node("sn-3", "sn", true, false)
	proxied.ApiService = "api.example:443"
	sn := func(host, api string, port int) invitation.SN {
		return invitation.SN{API: invitation.Address{Host: api, Port: port}, Files: invitation.Address{Host: host, Port: 30305}}
	}
	got, err := swci.ServingSNs([]*swarmv1.Node{
		node("sn-1", "sn", true, false), node("sn-dead", "sn", false, false), node("sn-out", "sn", true, true), node("sl-1", "sl", true, false), proxied, node("sn-2", "sn", true, false),
	}, "sn-2")
	want := []invitation.SN{sn("sn-2.example", "sn-2.example", 30304), sn("sn-1.example", "sn-1.example", 30304), sn("sn-3.example", "api.example", 443)}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// What nobody could dial is left out, and stops no invitation.
	bad := func(change func(n *swarmv1.Node)) *swarmv1.Node {
		n := node("sn-1", "sn", true, false)
		change(n)
		return n
	}
	for name, n := range map[string]*swarmv1.Node{
		"a made-up name":        bad(func(n *swarmv1.Node) { n.Host = "sn 1;reboot" }),
		"no name":               bad(func(n *swarmv1.Node) { n.Host = "" }),
		"a zone of its own":     bad(func(n *swarmv1.Node) { n.Host = "fe80::1%eth0" }),
		"a zone of a proxy":     bad(func(n *swarmv1.Node) { n.ApiService = "[fe80::1%eth0]:443" }),
		"a proxy without port":  bad(func(n *swarmv1.Node) { n.ApiService = "api.example" }),
		"a port that is none":   bad(func(n *swarmv1.Node) { n.ApiService = "api.example:https" }),
		"no port of the files":  bad(func(n *swarmv1.Node) { n.FsPort = 0 }),
		"a port beyond the end": bad(func(n *swarmv1.Node) { n.ApiPort = 70000 }),
	} {
		got, err := swci.ServingSNs([]*swarmv1.Node{n, node("sn-2", "sn", true, false)}, "sn-1")
		if diff := cmp.Diff([]invitation.SN{sn("sn-2.example", "sn-2.example", 30304)}, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	var many []*swarmv1.Node
	for range invitation.MaxSNs + 3 {
		many = append(many, node("sn", "sn", true, false))
	}
	if got, err := swci.ServingSNs(many, ""); len(got) != invitation.MaxSNs || err != nil {
		t.Errorf("%d of many SNs, %v", len(got), err)
	}
	if _, err := swci.ServingSNs([]*swarmv1.Node{node("sl-1", "sl", true, false)}, ""); exit.Code(err) != exit.Unreachable {
		t.Errorf("without SNs: %v", err)
	}
}

// Where an SN stands beside an SL both would have their file server on one port.
func TestCommandsOfAnInvitation(t *testing.T) {
	sn, sl := invitation.Node{Role: identity.RoleSN, Name: "sn-d"}, invitation.Node{Role: identity.RoleSL, Name: "d"}
	alone, both := &invitation.Invitation{Nodes: []invitation.Node{sl}}, &invitation.Invitation{Nodes: []invitation.Node{sn, sl}}
	for _, x := range []struct {
		i    *invitation.Invitation
		role identity.Role
		want string
	}{
		{alone, identity.RoleSL, "swarmd run-sl --invite d.invite --sl-platform PLATFORM --model-program PROGRAM"},
		{both, identity.RoleSL, "swarmd run-sl --invite d.invite --sl-platform PLATFORM --model-program PROGRAM --sl-fs-port 31305"},
		{both, identity.RoleSN, "swarmd run-sn --invite d.invite"},
		{alone, identity.RoleSWOP, "swarmd run-swop --invite d.invite --usr-dir DIR --profile-file-name PROFILE"},
	} {
		if got := swci.CommandOf(x.i, x.role, "d.invite"); got != x.want {
			t.Errorf("%s of %s: %q, want %q", x.role, x.i.For(), got, x.want)
		}
	}
}

func TestInviteMistakes(t *testing.T) {
	state := t.TempDir()
	file := filepath.Join(state, "file")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	invited := "create context c --invite " + file
	for args, want := range map[string]string{
		"invite":                              "name them, such as sl/hospital-d",
		"invite cook/a":                       `"cook/a": want ROLE or ROLE/NAME`,
		"invite sl":                           "write sl/NAME",
		"invite sl/a sl/b":                    "two nodes of role sl: invite each host by itself",
		"invite sl/a sn/a":                    `two nodes called "a"`,
		"invite swop":                         "write swop/NAME",
		"invite audit/a":                      "swarmd spire-token --create audit/a",
		"invite sl/a --expires 10s":           "--expires 10s is not valid",
		"invite sl/a --expires 10000h":        "give a time from 1m to 720h",
		"invite sl/a --server-socket " + file: "run this on the SPIRE server's machine as the user who runs the server, or name its socket with --server-socket; a server in a container has it in its volume",
		"create context c":                    "HOST is missing",
		invited:                               "this is no invitation",
		invited + "none":                      "no such file",
		"create context c --invite -":         "it is empty",
		invited + " --identity x":             "--invite brings the identity",
	} {
		out, said, code := ctl(t, state, strings.Fields(args)...)
		if code == exit.OK || out != "" || !strings.Contains(said, want) {
			t.Errorf("%s: code %d, %q, %q; want %q", args, code, out, said, want)
		}
	}
}
