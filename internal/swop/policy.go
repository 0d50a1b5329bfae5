package swop

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/policy"
)

// PolicyOf reads the policy of a host. given is that of the command: a file, or policy.Ask; what it does not say the profile does: uri is a
// path, from dir, or a file:// URI; empty: null. domain is the host's trust domain.
func PolicyOf(given, uri, dir, domain string) (*policy.Policy, error) {
	file := given
	switch {
	case given == "" && uri == "":
		return policy.Unwritten(policy.Null, domain)
	case given == policy.Ask, given == "" && uri == policy.Ask:
		return policy.Unwritten(policy.Ask, domain)
	case given == "":
		path, local := strings.CutPrefix(uri, "file://")
		if !local && strings.Contains(uri, "://") {
			return nil, fmt.Errorf("policyuri %.160s: policies are read from this host only: copy it into a file, and name that here or with --policy", uri)
		}
		if file = path; !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the host's policy: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, policy.MaxBytes+1)) // Parse says what is too much
	if err != nil {
		return nil, fmt.Errorf("read the host's policy: %w", err)
	}
	return policy.Parse(file, raw, domain)
}
