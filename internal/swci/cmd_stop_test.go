package swci_test

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/launch/stop"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// runStop runs `swarmctl stop` where nothing runs and the engine that is named is not there.
func runStop(t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{"SWARM_RUN_DIR": filepath.Join(dir, "run"), "DOCKER_HOST": "unix://" + dir + "/none.sock", "SWARM_SCOPE": "stop-test", "XDG_STATE_HOME": dir}
	for k, v := range env {
		t.Setenv(k, v)
	}
	var out bytes.Buffer
	s := &swci.Session{
		Env: swci.Env{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: time.Now,
			Getenv: func(k string) string { return env[k] }, IsTerminal: func(io.Writer) bool { return false },
		},
		Connect: func(context.Context, swci.Context) (client.Operator, func(), error) {
			t.Error("stop asks an SN")
			return client.Operator{}, nil, exit.New(exit.Unreachable, "", "no SN")
		},
	}
	err := swci.Execute(t.Context(), append([]string{"stop"}, args...), s)
	return out.String(), err
}

func TestStopHasOptionsOfItsOwn(t *testing.T) {
	out, err := runStop(t, "--help")
	if err != nil || out != stop.Usage {
		t.Errorf("--help: %q, %v", out, err)
	}
	for _, flag := range []string{"--bogus", "-o", "--sn=1", "sn"} {
		_, err := runStop(t, "--sl", flag)
		if exit.Code(err) != exit.Failed || !strings.HasPrefix(err.Error(), "Invalid flag: "+flag+"\nusage: ") {
			t.Errorf("%s: exit code %d, %v", flag, exit.Code(err), err)
		}
	}
	// --sn is the API's address everywhere else, and takes no value here.
	out, err = runStop(t, "--sn", "--apls")
	if out != "No running SN found\n" || exit.Code(err) != exit.Failed {
		t.Errorf("--sn: %q, %v", out, err)
	}
}

// Where the engine that the user names does not answer, containers may run all the same: that is no success.
func TestStopWithoutTheEngineThatIsNamed(t *testing.T) {
	out, err := runStop(t)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "containers were not looked for") || exit.Hint(err) == "" || out != "No running components found\n" {
		t.Errorf("%q, %v, hint %q", out, err, exit.Hint(err))
	}
	if out, err := runStop(t, "--apls"); err != nil || out != "No license server is needed, so none runs\n" {
		t.Errorf("--apls: %q, %v", out, err)
	}
}
