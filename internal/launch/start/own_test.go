package start_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/start"
)

// TestWhatIsASWOPsOwn: a process and a container know the same paths of the host.
func TestWhatIsASWOPsOwn(t *testing.T) {
	ownAlike(t, "state", "ca", "s")
}

// TestOwnPathsWithColons: a path that is taken for two is no longer kept from tasks.
func TestOwnPathsWithColons(t *testing.T) {
	ownAlike(t, "state:of:1", `c\a:`, `s:\`)
}

// ownAlike holds that a process and a container know the same paths, of which these are names.
func ownAlike(t *testing.T, state, authority, engineSocket string) {
	t.Helper()
	o, usr := swop(t)
	socket, err := net.Listen("unix", filepath.Join(usr, engineSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	o.StateDir, o.Identity, o.EngineSocket = filepath.Join(usr, state), "embedded="+filepath.Join(usr, authority), socket.Addr().String()
	in := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, filepath.Join(usr, name))
		}
		return all
	}
	want := in("k.pem", "profile.yaml", "policy.yaml", state, authority, engineSocket)
	slices.Sort(want)
	nothing := func(string) string { return "" }
	if got := o.Own(nothing, o.StateDir, filepath.Join(usr, "profile.yaml"), filepath.Join(usr, "policy.yaml"), ""); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("a process: %q, want %q", got, want)
	}
	spec, err := o.Component(none)
	if err != nil {
		t.Fatal(err)
	}
	inside := o
	inside.UsrDir, inside.StateDir, inside.Identity, inside.EngineSocket = "/platform/swarm/usr", "", "", ""
	got := inside.Own(func(name string) string {
		for _, v := range spec.Vars {
			if value, is := strings.CutPrefix(v, name+"="); is {
				return value
			}
		}
		return ""
	}, "/var/lib/swarmd", "/platform/swarm/usr/profile.yaml", "/platform/swarm/usr/policy.yaml")
	if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("a container: %q, want %q", got, want)
	}
}

// TestASWOPsOwnIdentity: wherever a SWOP has its identity from, and in whatever form that is named.
func TestASWOPsOwnIdentity(t *testing.T) {
	dir := t.TempDir()
	env := func(vars ...string) func(string) string {
		return func(name string) string {
			for _, v := range append(vars, "DOCKER_HOST=tcp://h:1", "XDG_RUNTIME_DIR="+dir) {
				if value, is := strings.CutPrefix(v, name+"="); is {
					return value
				}
			}
			return ""
		}
	}
	socket, authority := filepath.Join(dir, "a.sock"), filepath.Join(dir, "swarmd", "authority")
	if os.Geteuid() == 0 {
		authority = "/run/swarmd/authority"
	}
	for _, tt := range []struct {
		node start.Node
		env  func(string) string
		want string
	}{
		{start.Node{SocketPath: socket}, env(), socket},
		{start.Node{SocketPath: "unix://" + socket}, env(), socket},
		{start.Node{SocketPath: "unix:" + socket}, env(), socket},
		{start.Node{}, env("SPIFFE_ENDPOINT_SOCKET=unix:" + socket), socket},
		{start.Node{Identity: "embedded"}, env(), authority},
		{start.Node{Identity: "Embedded=" + dir}, env(), dir},
		{start.Node{Agent: start.Agent{"serverAddress": "s", "joinToken": "t", "socketPath": socket}}, env(), socket},
		{start.Node{Agent: start.Agent{"serverAddress": "s", "joinToken": "t", "dataDir": dir}}, env(), dir},
	} {
		o := start.SWOP{Node: tt.node}
		if got := o.Own(tt.env, ""); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%+v: %q, want %q", tt.node, got, tt.want)
		}
	}
}
