package chaos

import "testing"

// TestOutput shows what the driver learns from a daemon's lines, in whatever pieces they come.
func TestOutput(t *testing.T) {
	t.Parallel()
	var o output
	if o.take([]byte("INFO Starting SWARM-API-")) || o.serving {
		t.Error("serves by half a line")
	}
	if !o.take([]byte("SERVER\nINFO program started pid=1")) || !o.serving || o.program != 0 {
		t.Errorf("got %+v after the line", o)
	}
	if o.take([]byte("2 x\nraft leadership changed leading=true\n")) || o.program != 12 || !o.leading {
		t.Errorf("got %+v", o)
	}
	if o.begin(); o.serving || o.leading || o.program != 0 {
		t.Errorf("another process has %+v", o)
	}
}
