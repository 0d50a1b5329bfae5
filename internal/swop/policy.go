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
	file, err := PolicyFile(given, uri, dir)
	switch {
	case err != nil:
		return nil, err
	case file == "" && given == "" && uri == "":
		return policy.Unwritten(policy.Null, domain)
	case file == "":
		return policy.Unwritten(policy.Ask, domain)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the host's policy: %w: name another file with --policy or as policyuri of the profile, or be asked about each task with --policy ask", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, policy.MaxBytes+1)) // Parse says what is too much
	if err != nil {
		return nil, fmt.Errorf("read the host's policy: %w", err)
	}
	return policy.Parse(file, raw, domain)
}

// PolicyFile is the file in which a host's policy stands, by what PolicyOf is given; empty: it is in none.
func PolicyFile(given, uri, dir string) (string, error) {
	switch {
	case given != "" && given != policy.Ask:
		return given, nil
	case given == policy.Ask, uri == "", uri == policy.Ask:
		return "", nil
	}
	file, local := strings.CutPrefix(uri, "file://")
	if !local && strings.Contains(uri, "://") {
		return "", fmt.Errorf("policyuri %.160s: policies are read from this host only: copy it into a file, and name that here or with --policy", uri)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return file, nil
}
