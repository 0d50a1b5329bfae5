package invited_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/filelock"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/invited"
)

func certificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func example(t *testing.T) *invitation.Invitation {
	t.Helper()
	at := invitation.Address{Host: "10.0.0.1", Port: 1}
	return &invitation.Invitation{
		Nodes: []invitation.Node{{Role: identity.RoleSN, Name: "sn-d"}, {Role: identity.RoleSL, Name: "d"}}, Token: "t", TrustDomain: "a.example",
		Server: at, Bundle: certificate(t), SNs: []invitation.SN{{API: at, Files: at}}, SwarmID: "s", Expires: time.Unix(2_000_000_000, 0).UTC(),
	}
}

func TestRead(t *testing.T) {
	want := example(t)
	line, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := invited.Read("-", strings.NewReader(line+"\n"))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		empty:               "it is empty",
		empty + "none":      "no such file",
		filepath.Dir(empty): "is a directory",
		"/dev/zero":         "has more than",
	} {
		if _, err := invited.Read(file, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--invite") {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	if _, err := invited.Read("-", nil); err == nil {
		t.Error("nothing is read from no input")
	}
}

func TestKeep(t *testing.T) {
	nodes := t.TempDir()
	i := example(t)
	if got, err := invited.Kept(filepath.Join(nodes, "d")); got != nil || err != nil {
		t.Errorf("before: %v, %v", got, err)
	}
	for _, name := range []string{"d", "sn-d"} {
		if err := invited.Keep(filepath.Join(nodes, name), i); err != nil {
			t.Fatal(err)
		}
	}
	got, err := invited.Kept(filepath.Join(nodes, "d"))
	if diff := cmp.Diff(i, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, p := range []struct {
		path string
		mode os.FileMode
	}{{"d", 0o700}, {"d/invitation", 0o600}} {
		if info, err := os.Stat(filepath.Join(nodes, p.path)); err != nil || info.Mode().Perm() != p.mode {
			t.Errorf("%s has mode %v, %v", p.path, info.Mode(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(nodes, "sn-d", "invitation"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(nodes, "d")}, invited.Beside(nodes, identity.RoleSL)); diff != "" {
		t.Errorf("beside (-want +got):\n%s", diff)
	}
	if err := os.Chmod(filepath.Join(nodes, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := invited.Beside(nodes, identity.RoleSL); got != nil {
		t.Errorf("what others may write: %v", got)
	}
	if invited.Beside(nodes, identity.RoleSWCI) != nil || invited.Beside(nodes+"/none", identity.RoleSL) != nil {
		t.Error("others are found")
	}
}

// TestAgentDir has three components of a host, one of which joined.
func TestAgentDir(t *testing.T) {
	t.Setenv("SWARM_RUN_DIR", t.TempDir())
	nodes := t.TempDir()
	i, other := example(t), example(t)
	dir := func(name string) string { return filepath.Join(nodes, name) }
	agent := func(name string) string { return filepath.Join(nodes, name, "spire-agent") }
	for name, theirs := range map[string]*invitation.Invitation{"sl": i, "sn": i, "stranger": other} {
		if err := invited.Keep(dir(name), theirs); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(agent(name), "data"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	joins := func(name string) {
		t.Helper()
		pair := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(t)})
		raw, err := json.Marshal(map[string][][]byte{"svid": {pair}})
		if err == nil {
			err = os.WriteFile(filepath.Join(agent(name), "data", "agent-data.json"), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(when, name string) {
		t.Helper()
		if got := invited.AgentDir(dir("sl"), i, ""); got != agent(name) {
			t.Errorf("%s: %s, want %s", when, got, agent(name))
		}
	}
	want("nobody has joined", "sl")
	joins("stranger")
	want("another host's component has", "sl")
	lock, err := filelock.Take(filepath.Join(agent("sn"), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	want("the SN is about to", "sn")
	if got := invited.AgentDir(filepath.Join(t.TempDir(), "sl"), i, "", nodes); got != agent("sn") {
		t.Errorf("from elsewhere: %s", got)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	want("the SN did not", "sl")
	joins("sn")
	want("the SN has", "sn")
	if err := os.Chmod(dir("sn"), 0o755); err != nil {
		t.Fatal(err)
	}
	want("others may have written it", "sl")
	if err := os.Chmod(dir("sn"), 0o700); err != nil {
		t.Fatal(err)
	}
	joins("sl")
	want("both have", "sl")
}

func TestOpen(t *testing.T) {
	refused := errors.New("used already")
	for name, tt := range map[string]struct {
		finds []string
		want  string
	}{
		"at once":        {[]string{"good"}, "good"},
		"at the other's": {[]string{"own", "good"}, "own good"},
		"nowhere":        {[]string{"own", "own"}, "own"},
		"nor there":      {[]string{"own", "theirs"}, "own theirs"},
	} {
		var tried []string
		finds := tt.finds
		_, err := invited.Open(func() string {
			next := finds[0]
			finds = finds[1:]
			return next
		}, func(dir string) (identity.Provider, error) {
			tried = append(tried, dir)
			if dir == "good" {
				return nil, nil
			}
			return nil, refused
		})
		if got := strings.Join(tried, " "); got != tt.want || (err == nil) != strings.HasSuffix(tt.want, "good") {
			t.Errorf("%s: tried %s, %v", name, got, err)
		}
	}
}
