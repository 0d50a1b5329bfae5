package stop

import (
	"bytes"
	"testing"
)

// Names come from labels and entries that anybody may have written.
func TestTerminalsObeyNoName(t *testing.T) {
	var out bytes.Buffer
	r := &runner{cfg: Config{Out: &out}}
	r.say("Stopping %s … stopped", named("sl", "a\x1b]0;title\x07\x1b[2J\u202eb\nStopping SN c … stopped"))
	if got, want := out.String(), "Stopping SL ab Stopping SN c … stopped … stopped\n"; got != want {
		t.Errorf("got %q", got)
	}
}
