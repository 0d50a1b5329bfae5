package start_test

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsASWOPsOwn: a process and a container know the same paths of the host.
func TestWhatIsASWOPsOwn(t *testing.T) {
	o, usr := swop(t)
	socket, err := net.Listen("unix", filepath.Join(usr, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	o.StateDir, o.Identity, o.EngineSocket = filepath.Join(usr, "state"), "embedded="+filepath.Join(usr, "ca"), socket.Addr().String()
	in := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, filepath.Join(usr, name))
		}
		return all
	}
	want := in("k.pem", "profile.yaml", "policy.yaml", "state", "ca", "s")
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
