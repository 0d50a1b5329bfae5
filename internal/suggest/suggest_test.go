package suggest_test

import (
	"testing"

	"github.com/swarmd/swarmd/internal/suggest"
)

func TestWord(t *testing.T) {
	if d := suggest.Distance("Kitten", "sitting"); d != 3 {
		t.Errorf("distance %d", d)
	}
	known := []string{"host-ip", "sn-ip", "sl-fs-port", "name"}
	for typed, want := range map[string]string{
		"host-pi": "host-ip", "HOST-IP": "host-ip", "sl-fs-prt": "sl-fs-port", "nme": "name", "zzzzzzzz": "", "": "",
	} {
		if got := suggest.Word(typed, known); got != want {
			t.Errorf("Word(%q): got %q, want %q", typed, got, want)
		}
	}
}
