package daemon_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// TestIdentityFromFilesRefuses holds that wrong files end a node at its start, with option and file in the message.
func TestIdentityFromFilesRefuses(t *testing.T) {
	home := t.TempDir()
	ca, err := certs.InitCA(home, "td", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, cfg certs.IssueConfig, now time.Time) []string {
		t.Helper()
		issued, err := ca.Issue(cfg, now)
		if err != nil {
			t.Fatal(err)
		}
		cert, key := filepath.Join(home, name+".pem"), filepath.Join(home, name+"-key.pem")
		if err := issued.Write(cert, key); err != nil {
			t.Fatal(err)
		}
		return []string{"--cert", cert, "--key", key, "--cacert", filepath.Join(home, "ca.pem")}
	}
	sn := issue("sn", certs.IssueConfig{Role: identity.RoleSN, Name: "sn-1"}, time.Now())
	sl := issue("sl", certs.IssueConfig{Role: identity.RoleSL}, time.Now())
	late := issue("late", certs.IssueConfig{Role: identity.RoleSN}, time.Now().Add(time.Hour))
	for name, tt := range map[string]struct {
		env  map[string]string
		args []string
		want []string
	}{
		"missing":          {nil, []string{"--cert", "/no/cert.pem", "--key", sn[3], "--cacert", sn[5]}, []string{"--cert: bad file /no/cert.pem: it does not exist"}},
		"missing CAs":      {nil, []string{"--cert", sn[1], "--key", sn[3], "--capath", "/no"}, []string{"--capath: bad directory /no"}},
		"original's names": {map[string]string{"SWARM_ID_CERT": "/no/cert.pem", "SWARM_ID_KEY": sn[3], "SWARM_ID_CACERT": sn[5]}, nil, []string{"--cert: bad file /no/cert.pem"}},
		"only a key":       {nil, []string{"--key", sn[3]}, []string{"--cert is missing"}},
		"role":             {nil, sl, []string{"for the role sl, this node is of the role sn"}},
		"name":             {nil, append([]string{"--name", "other"}, sn...), []string{`for the node "sn-1"`, "--name sn-1"}},
		"clock":            {nil, late, []string{"not valid yet", "clock"}},
		"kind":             {nil, append([]string{"--cert-roles", "cn"}, sn...), []string{"--cert-roles cn"}},
		"roles":            {nil, append([]string{"--cert-roles", "dn"}, sn...), []string{"want spiffe or cn"}},
		"two sources":      {nil, append([]string{"--identity", "embedded"}, sn...), []string{"give one of the two"}},
		"an agent too":     {nil, append([]string{"-serverAddress", "h"}, sn...), []string{"give one of the two"}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			args := append([]string{"run-sn", "--host-ip", "127.0.0.1", "--sentinel-ip", "127.0.0.1", "--state-dir", filepath.Join(t.TempDir(), "s")}, tt.args...)
			code, _, stderr := swarmd(t, home, args...)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			for _, w := range tt.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("%q lacks %q", stderr, w)
				}
			}
		})
	}
}
