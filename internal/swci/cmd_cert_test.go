package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// certRun runs a command now, not at the fixed time of run: certificates are read by a node's real code.
func certRun(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(k string) string { return map[string]string{"HOME": "/nonexistent"}[k] },
		Now: time.Now, IsTerminal: func(io.Writer) bool { return false },
	}
	err = swci.Execute(t.Context(), args, &swci.Session{Env: env})
	return out.String(), errs.String(), err
}

func must(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := certRun(t, args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return stdout, stderr
}

func openIssued(t *testing.T, dir, base, roles string, role identity.Role) (*certs.FileSource, error) {
	t.Helper()
	return certs.OpenFiles(t.Context(), certs.FilesConfig{
		Cert: filepath.Join(dir, base+"-cert.pem"), Key: filepath.Join(dir, base+"-key.pem"), CACert: filepath.Join(dir, "ca", "ca.pem"),
		Roles: roles, Role: role, Log: slog.New(slog.DiscardHandler),
	})
}

func TestCertInitIssueShow(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	if _, next := must(t, "cert", "init", ca, "--trust-domain", "hospital.example"); !strings.Contains(next, "next: swarmctl cert issue sn/sn-1 --dir "+ca) {
		t.Errorf("next step %q", next)
	}
	if info, err := os.Stat(filepath.Join(ca, "ca-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("CA key: %v, %v", info, err)
	}
	before, err := os.ReadFile(filepath.Join(ca, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := certRun(t, "cert", "init", ca); exit.Code(err) != exit.Conflict {
		t.Errorf("second init: %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(ca, "ca.pem")); !bytes.Equal(before, after) {
		t.Error("the CA was written over")
	}
	issue := []string{"cert", "issue", "sl/hospital-a", "--dir", ca, "--out", dir, "--host", "sl.example", "--host", "10.0.0.7", "--days", "30"}
	_, next := must(t, issue...)
	if !strings.Contains(next, "swarmd run-sl --name hospital-a --cert "+filepath.Join(dir, "sl-hospital-a-cert.pem")) {
		t.Errorf("next step %q", next)
	}
	s, err := openIssued(t, dir, "sl-hospital-a", "", identity.RoleSL)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.ID().String() != "spiffe://hospital.example/swarm/sl/hospital-a" {
		t.Errorf("ID %s", s.ID())
	}
	old := s.Status().NotAfter
	if life := time.Until(old); life < 29*24*time.Hour || life > 30*24*time.Hour {
		t.Errorf("it lives for %s", life)
	}
	changed := s.Changed()
	must(t, append(issue, "--days", "60")...)
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
		t.Fatal("a renewal is not seen")
	}
	if !s.Status().NotAfter.After(old) {
		t.Errorf("after renewal it expires at %s", s.Status().NotAfter)
	}
	shown, _ := must(t, "cert", "show", filepath.Join(dir, "sl-hospital-a-cert.pem"))
	for _, want := range []string{"SPIFFE ID   spiffe://hospital.example/swarm/sl/hospital-a", "sl.example, 10.0.0.7", "signed by   CN=swarm CA of hospital.example", "ECDSA"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q:\n%s", want, shown)
		}
	}
	if shown, _ = must(t, "cert", "show", filepath.Join(ca, "ca.pem")); !strings.Contains(shown, "of the trust domain hospital.example, trusted for no other") {
		t.Error(shown)
	}
	var out struct{ Certificates []map[string]any }
	text, _ := must(t, "cert", "show", filepath.Join(dir, "sl-hospital-a-cert.pem"), "-o", "json")
	if err := json.Unmarshal([]byte(text), &out); err != nil || out.Certificates[0]["spiffe_id"] != s.ID().String() || out.Certificates[0]["problem"] != "" {
		t.Errorf("JSON %s: %v", text, err)
	}
	if _, _, err := certRun(t, "cert", "issue", "--cn", "SL-2", "--dir", ca, "--out", dir); err == nil || !strings.Contains(err.Error(), "cert init --cn-roles") {
		t.Errorf("CN of a trust domain's CA: %v", err)
	}
}

func TestCertOfCNRoles(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	must(t, "cert", "init", ca, "--cn-roles")
	_, next := must(t, "cert", "issue", "--cn", "SL-2", "--dir", ca, "--out", dir)
	if !strings.Contains(next, "--cert-roles cn") {
		t.Errorf("next step %q", next)
	}
	s, err := openIssued(t, dir, "sl-2", "cn", identity.RoleSL)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	shown, _ := must(t, "cert", "show", filepath.Join(dir, "sl-2-cert.pem"))
	if ca, _ := must(t, "cert", "show", filepath.Join(ca, "ca.pem")); !strings.Contains(ca, ".cn-roles.swarmd.invalid, where certificates are of the original's gen-cert") {
		t.Errorf("a CA without trust domain is shown as %q", ca)
	}
	if !strings.Contains(shown, "sl by its CN") {
		t.Error(shown)
	}
	if _, _, err := certRun(t, "cert", "issue", "sl/x", "--dir", ca, "--out", dir); err == nil || !strings.Contains(err.Error(), "names no trust domain") {
		t.Errorf("SPIFFE ID of a CN CA: %v", err)
	}
}

func TestCertRefuses(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	must(t, "cert", "init", ca)
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no CA":       {[]string{"cert", "issue", "sn", "--dir", filepath.Join(dir, "none")}, exit.NotFound, "does not exist"},
		"role":        {[]string{"cert", "issue", "db/x", "--dir", ca}, exit.Usage, "none of sn, sl, swop, swci"},
		"name":        {[]string{"cert", "issue", "sl/a b", "--dir", ca}, exit.Usage, "A-Z a-z 0-9"},
		"empty name":  {[]string{"cert", "issue", "sl/", "--dir", ca}, exit.Usage, "empty"},
		"nobody":      {[]string{"cert", "issue", "--dir", ca}, exit.Usage, "either ROLE/NAME or --cn"},
		"both":        {[]string{"cert", "issue", "sl", "--cn", "SL-1", "--dir", ca}, exit.Usage, "either ROLE/NAME or --cn"},
		"host":        {[]string{"cert", "issue", "sl", "--host", "a:1", "--dir", ca}, exit.Usage, "neither a host name nor an IP"},
		"days":        {[]string{"cert", "issue", "sl", "--days", "0", "--dir", ca}, exit.Usage, "1 to 3650"},
		"many days":   {[]string{"cert", "issue", "sl", "--days", "9999", "--dir", ca}, exit.Usage, "1 to 3650"},
		"bad domain":  {[]string{"cert", "init", filepath.Join(dir, "x"), "--trust-domain", "A B"}, exit.Failed, "--trust-domain"},
		"cn domain":   {[]string{"cert", "init", filepath.Join(dir, "x"), "--cn-roles", "--trust-domain", "a"}, exit.Usage, "names no --trust-domain"},
		"no file":     {[]string{"cert", "show", filepath.Join(dir, "none")}, exit.NotFound, "does not exist"},
		"no PEM":      {[]string{"cert", "show", os.Args[0]}, exit.NotFound, "too large"},
		"files twice": {[]string{"list", "nodes", "--sn", "h:1", "--cert", "c", "--identity", "/run/a.sock"}, exit.Usage, "--identity from elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := certRun(t, append(tt.args, "-o", "json")...)
			if exit.Code(err) != tt.code || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v (code %d), want code %d and %q", err, exit.Code(err), tt.code, tt.want)
			}
		})
	}
}

// TestIdentityFromFiles holds that swarmctl's own certificate is taken, and named when it does not fit.
func TestIdentityFromFiles(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	must(t, "cert", "init", ca)
	must(t, "cert", "issue", "swci/alice", "--dir", ca, "--out", dir)
	must(t, "cert", "issue", "sl", "--dir", ca, "--out", dir)
	for base, want := range map[string]string{"swci-alice": "", "sl": "for the role sl, this node is of the role swci"} {
		var got identity.ID
		env := swci.Env{Stdout: io.Discard, Stderr: io.Discard, Now: time.Now, IsTerminal: func(io.Writer) bool { return false }, Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": dir, "SWARM_ID_CACERT": filepath.Join(ca, "ca.pem")}[k]
		}}
		connect := func(ctx context.Context, target swci.Context) (client.Operator, func(), error) {
			source, _, err := swci.OpenIdentity(env)(ctx, target)
			if err != nil {
				return client.Operator{}, func() {}, err
			}
			got = source.ID()
			return answering(t, &fakeAPI{}), func() { _ = source.Close() }, nil
		}
		args := []string{"list", "nodes", "--sn", "h:1", "--cert", filepath.Join(dir, base+"-cert.pem"), "--key", filepath.Join(dir, base+"-key.pem")}
		err := swci.Execute(t.Context(), args, &swci.Session{Env: env, Connect: connect})
		if want == "" && (err != nil || got.String() != "spiffe://swarm.learning/swarm/swci/alice") {
			t.Errorf("%s: %s, %v", base, got, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", base, err)
		}
	}
}
