package runner

import (
	"bytes"
	"testing"
)

func TestTerminalsObeyNoProgram(t *testing.T) {
	var out bytes.Buffer
	Config{Spec: Spec{Stdout: &out}}.line("stdout", "loss\t0.1\x1b]0;title\x07\x1b[2A\x1b[2K all is well")
	if got, want := out.String(), "program | loss\t0.1 all is well\n"; got != want {
		t.Errorf("got %q", got)
	}
}
