package daemon_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/daemon"
)

func TestErrorsCarryTheirRemedy(t *testing.T) {
	taken := &client.Error{Message: "the name sl-1 is taken", Remedy: "choose another --name"}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", errors.New("no"), "swarmd: no"},
		{"of the API", fmt.Errorf("register: %w", taken), "swarmd: register: the name sl-1 is taken: choose another --name"},
		{"two", errors.Join(errors.New("a"), errors.New("b")), "swarmd: a\nswarmd: b"},
		{"last words", errors.New("exit code 1; last lines:\n  x\n  y"), "swarmd: exit code 1; last lines:\n  x\n  y"},
	} {
		if got := daemon.Explain(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
