package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsDoNotGetTheIdentity holds that no directory is given to a program in a container from which it could take its
// node's place.
func TestProgramsDoNotGetTheIdentity(t *testing.T) {
	dir := hostDirs(t)
	if err := os.Symlink(dir, filepath.Join(dir, "extra", "link")); err != nil {
		t.Fatal(err)
	}
	const sl = "run-sl --host-ip h --sn-ip s --name sl-1 --model-program train.py "
	for args, want := range map[string]string{
		sl + "--model-dir model --cert certs/c.pem --key certs/k.pem --cacert certs/ca.pem":                              "",
		sl + "--model-dir model --data-dir . --cert certs/c.pem --key certs/k.pem --cacert certs/ca.pem":                 "--data-dir",
		sl + "--model-dir model --ml-v ./certs:/certs:ro --cert certs/c.pem --key certs/k.pem --cacert certs/ca.pem":     "--ml-v",
		sl + "--model-dir model --ml-v extra/link:/x --cert certs/c.pem --key certs/k.pem --cacert certs/ca.pem":         "--ml-v",
		sl + "--model-dir model --ml-v ./certs:/c --cert certs/c.pem --key extra/link/certs/k.pem --cacert certs/ca.pem": "--ml-v",
		sl + "--model-dir model --socket-path agent.sock --state-dir model/state/new":                                    "--model-dir",
		sl + "--model-dir model --socket-path agent.sock --state-dir models":                                             "",
		sl + "--model-dir model --socket-path agent.sock --data-dir .":                                                   "--data-dir",
		sl + "--model-dir model --socket-path agent.sock --ml-v volume:/x":                                               "",
	} {
		_, err := translated(t, environment(map[string]string{"HOME": dir}), strings.Fields(args)...)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", args, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want+": ") || !strings.Contains(err.Error(), "speak for the node")):
			t.Errorf("%s: got %v, want a refusal of %s", args, err, want)
		}
	}
}
