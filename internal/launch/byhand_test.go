package launch_test

import (
	"os/exec"
	"testing"

	"github.com/swarmd/swarmd/internal/launch"
)

// A shell takes the line as it is meant, whatever is in the paths.
func TestExports(t *testing.T) {
	for _, c := range []struct{ bridge, packages, own, want string }{
		{"/dev/shm/swarmd/sl-1", "/var/lib/p", "", "/dev/shm/swarmd/sl-1 sl-1 /var/lib/p"},
		{"/dev/shm/swarmd/sl-1", "/var/lib/p", "/mine", "/dev/shm/swarmd/sl-1 sl-1 /var/lib/p:/mine"},
		{"/it's $HOME", "/a b/../p", "", "/it's $HOME sl-1 /p"},
		{"/b", "", "/mine", "/b sl-1 /mine"},
	} {
		line := launch.Exports("sl-1", c.bridge, c.packages)
		cmd := exec.Command("sh", "-c", line+`; printf %s "$SWARM_BRIDGE_DIR $SWARM_PEER $PYTHONPATH"`)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		if c.own != "" {
			cmd.Env = append(cmd.Env, "PYTHONPATH="+c.own)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %v, got %q, want %q", line, err, out, c.want)
		}
	}
}
