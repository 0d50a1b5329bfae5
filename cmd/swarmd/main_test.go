package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/swarmd/swarmd/internal/daemon"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"swarmd": func() { os.Exit(daemon.Main(os.Args, daemon.OS())) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for k, v := range map[string]string{
				"XDG_STATE_HOME": filepath.Join(e.WorkDir, "xdg"), "SWARM_STATE_DIR": filepath.Join(e.WorkDir, "state"), "HOME": e.WorkDir, "SPIFFE_ENDPOINT_SOCKET": "",
			} {
				e.Setenv(k, v)
			}
			return nil
		},
		RequireExplicitExec: true,
		// A node that should refuse and starts instead would wait for ever.
		Deadline: time.Now().Add(2 * time.Minute), // all scripts together, on a busy machine
	})
}
