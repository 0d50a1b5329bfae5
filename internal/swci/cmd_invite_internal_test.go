package swci

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"flag"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestALineThatIsLost: the swarm has made the invitation when the file can't be written, so the error says how to take it back.
func TestALineThatIsLost(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	const back = "to take it back: swarmctl forget node sn-d"
	for _, tt := range []struct {
		name, out  string
		number     uint64
		status     int
		said, hint string
	}{
		{"no such folder", filepath.Join(taken, "none", "line"), 3, exit.Failed, "invitation 3 of SN sn-d was made, and nobody has its line", back},
		{"somebody made the file meanwhile", taken, 3, exit.Conflict, "taken exists; invitation 3", back + "; to invite again, which takes it back too, give another name with --out"},
		{"the swarm has made none", taken, 0, exit.Conflict, "taken exists", "give another name with --out"},
	} {
		flags := flag.NewFlagSet("invite", flag.ContinueOnError)
		flags.String("out", tt.out, "")
		flags.Bool("force", false, "")
		var out bytes.Buffer
		v := &inviter{s: &Session{Env: Env{Stdout: &out, Stderr: io.Discard}}, opts: cli.NewContext(nil, flags, nil), number: tt.number, i: invitation.Invitation{
			TrustDomain: "a.example", SwarmID: strings.Repeat("a", 32), Token: "token", Bundle: der, Expires: time.Unix(1e9, 0), Admission: make([]byte, claim.SecretSize),
			Server: invitation.Address{Host: "h", Port: 1}, SNs: []invitation.SN{{API: invitation.Address{Host: "h", Port: 2}, Files: invitation.Address{Host: "h", Port: 3}}},
			Nodes: []invitation.Node{{Role: identity.RoleSN, Name: "sn-d"}},
		}}
		err := v.print()
		if exit.Code(err) != tt.status || err == nil || !strings.Contains(err.Error(), tt.said) || !strings.HasPrefix(exit.Hint(err), tt.hint) || out.Len() != 0 {
			t.Errorf("%s: %v (%d), hint %q, output %q", tt.name, err, exit.Code(err), exit.Hint(err), out.String())
		}
	}
}
