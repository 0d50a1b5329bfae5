package swci_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestDeleteContext(t *testing.T) {
	state := t.TempDir()
	contexts, err := swci.OpenContexts(func(k string) string { return map[string]string{"XDG_STATE_HOME": state}[k] })
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"east", "west"} {
		if err := contexts.Save(swci.Context{Name: name, SNs: []string{"sn:30304"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := contexts.Switch("east"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args    string
		code    int
		out     string // in either stream
		current string // afterwards
	}{
		{"delete context west", exit.OK, "context west is forgotten", "east"},
		{"delete context west", exit.NotFound, `context "west" does not exist`, "east"},
		{"delete context ../x", exit.Usage, "is not valid", "east"},
		{"delete context east -o json", exit.OK, `"deleted": "east"`, ""},
	} {
		out, stderr, code := ctl(t, state, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out+stderr, tt.out) || contexts.Current() != tt.current {
			t.Errorf("%s: code %d, current %q, want %q:\n%s%s", tt.args, code, contexts.Current(), tt.out, out, stderr)
		}
	}
	if left, err := contexts.List(); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
