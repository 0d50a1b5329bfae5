package daemon_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity"
)

// TestRecoverSNRefuses before it asks anybody: one line each, and what to do.
func TestRecoverSNRefuses(t *testing.T) {
	const word = "--i-understand-that-the-others-are-gone"
	dir := t.TempDir()
	for name, role := range map[string]identity.Role{"sn-0": identity.RoleSN, "sl-0": identity.RoleSL} {
		lock, err := identity.OpenStateDir(filepath.Join(dir, name), name, role)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"mandatory parameter --state-dir not specified":             {word},
		"repeat the command with " + word:                           {"--state-dir", filepath.Join(dir, "sn-0")},
		"no such file or directory":                                 {"--state-dir", filepath.Join(dir, "absent"), word},
		"not the state directory of an SN":                          {"--state-dir", filepath.Join(dir, "sl-0"), word},
		"give --socket-path of a SPIFFE agent, --identity embedded": {"--state-dir", filepath.Join(dir, "sn-0"), word},
	} {
		_, stderr, code := run(t, append([]string{"swarmd", "recover-sn"}, args...)...)
		if code != 1 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
}
