package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/swarmd/swarmd/internal/swci"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"swarmctl": func() { os.Exit(swci.Main(os.Args[1:], swci.OSEnv())) },
	})
}

func TestScripts(t *testing.T) {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("BIN", bin)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			_, err := os.Stat(filepath.Join(bin, cond))
			return err == nil, nil
		},
	})
}
