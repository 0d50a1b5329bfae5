package runner

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
)

// printsArguments is a Python that has no package, and prints the arguments with which a program is run.
const printsArguments = `#!/bin/sh
[ "$1" = -u ] || exit 0
shift 2
for a in "$@"; do printf '<%s>' "$a"; done
`

// TestArgumentsReachTheProcess holds that no shell and no option of Python comes between.
func TestArgumentsReachTheProcess(t *testing.T) {
	dir := t.TempDir()
	python := filepath.Join(dir, "python3")
	for path, text := range map[string]string{python: printsArguments, filepath.Join(dir, "train.py"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	p, err := newProcess(t.Context(), Config{
		Spec: Spec{ModelDir: dir, Program: "train.py", Args: []string{"-c", "", "--lr=0.1", "$HOME `id` *"}, Stdout: &out}, StateDir: filepath.Join(dir, "state"), Log: slog.New(slog.DiscardHandler),
	}, python)
	if err != nil {
		t.Fatal(err)
	}
	running, err := p.start(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if exit, want := running.Wait(), "<-c><><--lr=0.1><$HOME `id` *>"; exit.ExitCode != 0 || !strings.Contains(out.String(), want) {
		t.Errorf("%v, %q; want %s", exit, out.String(), want)
	}
}

// TestFingerprintsKnowArguments: a program with others is another one, and one without is that of a daemon which gave none, whose finished
// training need not run again.
func TestFingerprintsKnowArguments(t *testing.T) {
	of := func(args ...string) [2]string {
		p := process{cfg: Config{Spec: Spec{Platform: "PYT", Program: "train.py", ModelDir: "/m", Args: args}}}
		c := containers{spec: container.Spec{Image: "i", Program: "train.py", ModelDir: "/m", Args: args}}
		return [2]string{p.fingerprint(), c.fingerprint()}
	}
	before := [2]string{"94ca9716c400af75c145b7c6085616714fda7ef2cdc5f275a4ca14ffd15fd5f1", "9460ded940f4689ebdbc698562376440c1e954e6e4f5ee098fe7a5858d2ea308"}
	if got := of(); got != before {
		t.Errorf("without arguments: %q", got)
	}
	seen := map[string][]string{}
	for _, args := range [][]string{nil, {""}, {"a b"}, {"a", "b"}} {
		for i, is := range of(args...) {
			if other, is2 := seen[is]; is2 {
				t.Errorf("%d: %q and %q look the same", i, args, other)
			}
			seen[is] = args
		}
	}
}
