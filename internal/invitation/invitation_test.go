package invitation_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/internal/invitation"
)

func certificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func example(t testing.TB) *invitation.Invitation {
	der := certificate(t)
	return &invitation.Invitation{
		Nodes: []invitation.Node{{Role: identity.RoleSN, Name: "sn-d"}, {Role: identity.RoleSL, Name: "hospital-d"}, {Role: identity.RoleSWCI}},
		Token: "c0ffee00-1111-2222-3333-444455556666", TrustDomain: "swarm.learning",
		Server: invitation.Address{Host: "spire.example", Port: 8081}, Bundle: append(der, der...),
		SNs: []invitation.SN{
			{API: invitation.Address{Host: "10.0.0.1", Port: 30304}, Files: invitation.Address{Host: "10.0.0.1", Port: 30305}},
			{API: invitation.Address{Host: "fd00::1", Port: 443}, Files: invitation.Address{Host: "fd00::1", Port: 30305}},
		},
		SwarmID: "0123456789abcdef0123456789abcdef", Expires: time.Unix(1_800_000_000, 0).UTC(),
	}
}

func line(t testing.TB, i *invitation.Invitation) string {
	t.Helper()
	text, err := i.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestLine(t *testing.T) {
	t.Parallel()
	want := example(t)
	text := line(t, want)
	if strings.ContainsAny(text, " \n\t") || len(text) > 4000 {
		t.Errorf("a line of %d bytes that a terminal would not take: %q", len(text), text)
	}
	if strings.Contains(text, want.Token) {
		t.Error("the token can be read over a shoulder")
	}
	for name, carried := range map[string]string{"as it is": text, "with a newline": text + "\r\n", "wrapped": "  " + text[:70] + "\n> "[:1] + text[70:]} {
		got, err := invitation.Decode(carried)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	print1, _ := want.Fingerprint()
	other := *want
	other.Token += "x"
	print2, _ := other.Fingerprint()
	if len(print1) != invitation.FingerprintLen || print1 == print2 || strings.Contains(text, print1) {
		t.Errorf("fingerprints %q and %q", print1, print2)
	}
	if n, ok := want.Of(identity.RoleSL); !ok || want.SPIFFEID(n) != "spiffe://swarm.learning/swarm/sl/hospital-d" || want.For() != "sn/sn-d, sl/hospital-d, swci" {
		t.Errorf("it is for %v of %s", n, want.For())
	}
	if certs := strings.Count(string(want.BundlePEM()), "BEGIN CERTIFICATE"); certs != 2 {
		t.Errorf("%d certificates", certs)
	}
}

var secret = bytes.Repeat([]byte{7}, claim.SecretSize)

// admitting is an invitation that admits its SN.
func admitting(t testing.TB) *invitation.Invitation {
	i := example(t)
	i.Admission = secret
	return i
}

// TestLineThatAdmits has another format, which versions that would leave the admission out refuse. A line that admits nobody is as before.
func TestLineThatAdmits(t *testing.T) {
	t.Parallel()
	want := admitting(t)
	text := line(t, want)
	got, err := invitation.Decode(text)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if !strings.HasPrefix(text, "swarm-invitation-2.") || !strings.HasPrefix(line(t, example(t)), "swarm-invitation-1.") {
		t.Errorf("format of %.20s", text)
	}
	if strings.Contains(text, base64.StdEncoding.EncodeToString(secret)) {
		t.Error("the secret can be read over a shoulder")
	}
	print1, _ := want.Fingerprint()
	want.Admission = bytes.Repeat([]byte{8}, claim.SecretSize)
	if print2, _ := want.Fingerprint(); print1 == print2 {
		t.Error("two secrets have one fingerprint")
	}
	body := strings.SplitN(text, ".", 3)[2]
	for name, altered := range map[string]string{
		"as the first format": "swarm-invitation-1" + strings.TrimPrefix(text, "swarm-invitation-2"),
		"cut":                 text[:len(text)/2],
		"another secret":      strings.Replace(text, body[40:44], "AAAA", 1),
	} {
		if _, err := invitation.Decode(altered); !errors.Is(err, invitation.ErrAltered) && !errors.Is(err, invitation.ErrCut) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEachByte holds that no altered line and no part of a line is taken for an invitation.
func TestEachByte(t *testing.T) {
	t.Parallel()
	text := line(t, example(t))
	for i := range text {
		if _, err := invitation.Decode(text[:i]); i > 0 && !errors.Is(err, invitation.ErrCut) {
			t.Fatalf("cut at %d: %v", i, err)
		}
		for _, c := range "aA0._-" {
			if altered := text[:i] + string(c) + text[i+1:]; altered != text {
				if _, err := invitation.Decode(altered); err == nil {
					t.Fatalf("altered at %d to %q: it is taken", i, c)
				}
			}
		}
	}
	body := strings.LastIndexByte(text, '.') - 40
	altered := text[:body] + strings.Map(func(r rune) rune {
		if r == 'A' {
			return 'B'
		}
		return 'A'
	}, text[body:body+4]) + text[body+4:]
	for name, tt := range map[string]struct {
		text string
		want error
	}{
		"altered":        {altered, invitation.ErrAltered},
		"with more":      {text + "x", invitation.ErrAltered},
		"another":        {"hello", invitation.ErrNone},
		"nothing":        {" \n", invitation.ErrNone},
		"a token":        {"c0ffee00-1111-2222-3333-444455556666", invitation.ErrNone},
		"too long":       {strings.Repeat("a", invitation.MaxLine+1), invitation.ErrLong},
		"without a body": {"swarm-invitation-1.1.", invitation.ErrCut},
	} {
		if _, err := invitation.Decode(tt.text); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	_, err := invitation.Decode("swarm-invitation-3" + strings.TrimPrefix(text, "swarm-invitation-1"))
	if err == nil || !strings.Contains(err.Error(), "has format 3") {
		t.Errorf("a later format: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	type change = func(*invitation.Invitation)
	for want, f := range map[string]change{
		"it is for 0 nodes":       func(i *invitation.Invitation) { i.Nodes = nil },
		`role "root" is not`:      func(i *invitation.Invitation) { i.Nodes[0].Role = "root" },
		"two nodes of role sl":    func(i *invitation.Invitation) { i.Nodes[0].Role = identity.RoleSL },
		"two nodes called \"sn-d": func(i *invitation.Invitation) { i.Nodes[1].Name = "sn-d" },
		"write sl/NAME":           func(i *invitation.Invitation) { i.Nodes[1].Name = "" },
		`name "../x" has the`:     func(i *invitation.Invitation) { i.Nodes[1].Name = "../x" },
		"the join token is none":  func(i *invitation.Invitation) { i.Token = "a b" },
		"the swarm ID is none":    func(i *invitation.Invitation) { i.SwarmID = "-x" },
		"trust domain \"A b\" is": func(i *invitation.Invitation) { i.TrustDomain = "A b" },
		"it names 0 SNs":          func(i *invitation.Invitation) { i.SNs = nil },
		"it names 17 SNs":         func(i *invitation.Invitation) { i.SNs = append(i.SNs, make([]invitation.SN, 15)...) },
		`host "-x" is none`:       func(i *invitation.Invitation) { i.Server.Host = "-x" },
		`host "a b" is none`:      func(i *invitation.Invitation) { i.SNs[0].Files.Host = "a b" },
		`host "fe80::1%eth0" is`:  func(i *invitation.Invitation) { i.SNs[1].Files.Host = "fe80::1%eth0" },
		`host "fe80::1%25" is n`:  func(i *invitation.Invitation) { i.Server.Host = "fe80::1%25" },
		"port 0 is none":          func(i *invitation.Invitation) { i.SNs[1].API.Port = 0 },
		"its trust bundle is no":  func(i *invitation.Invitation) { i.Bundle = i.Bundle[1:] },
		"its trust bundle has":    func(i *invitation.Invitation) { i.Bundle = make([]byte, 1<<20) },
		"it expires at":           func(i *invitation.Invitation) { i.Expires = time.Time{} },
		"its secret is none":      func(i *invitation.Invitation) { i.Admission = secret[1:] },
		"what it admits is no SN": func(i *invitation.Invitation) { i.Nodes, i.Admission = i.Nodes[1:], secret },
	} {
		i := example(t)
		f(i)
		if _, err := i.Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(line(f, example(f)))
	f.Add(line(f, admitting(f)))
	f.Add("swarm-invitation-1.12.e30..aaaaaaaaaa")
	f.Add("swarm-invitation-3.1.a")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := invitation.Decode(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is no sentence", err)
			}
			return
		}
		again, err := i.Encode()
		if err != nil || again != strings.Join(strings.Fields(text), "") {
			t.Errorf("%q is written as %q, %v", text, again, err)
		}
	})
}

// FuzzFacts lets the facts be anything, with a checksum that fits.
func FuzzFacts(f *testing.F) {
	f.Add(false, `{"nodes":[{"role":"sl","name":"a"}]}`, []byte{1})
	whole := example(f)
	facts, _ := json.Marshal(map[string]any{
		"nodes": whole.Nodes, "token": whole.Token, "trust_domain": whole.TrustDomain, "server": whole.Server, "sns": whole.SNs, "swarm_id": whole.SwarmID, "expires": 1, "admission": secret,
	})
	f.Add(true, string(facts), whole.Bundle)
	f.Fuzz(func(t *testing.T, second bool, facts string, bundle []byte) {
		i, err := invitation.Decode(invitation.Sealed(second, facts, bundle))
		if err != nil {
			return
		}
		if _, sn := i.Of(identity.RoleSN); i.Check() != nil || second != (i.Admission != nil) || second && (!sn || claim.KeyOf(i.Admission) == nil) {
			t.Errorf("%q is taken", facts)
		}
	})
}
