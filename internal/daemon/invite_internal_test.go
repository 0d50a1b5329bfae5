package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/claim"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/invited"
)

// invite makes an invitation, and returns the file that it is in.
func invite(t *testing.T, dir string, nodes ...invitation.Node) string {
	t.Helper()
	return inviteTo(t, dir, nil, nodes...)
}

// inviteTo makes one with a secret by which the SN among the nodes is admitted.
func inviteTo(t *testing.T, dir string, secret []byte, nodes ...invitation.Node) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	at := func(host string, port int) invitation.Address { return invitation.Address{Host: host, Port: port} }
	i := &invitation.Invitation{
		Nodes: nodes, Token: "secret", TrustDomain: "a.example", Server: at("10.0.0.9", 8082), Bundle: der, SwarmID: "swarm",
		SNs:     []invitation.SN{{API: at("127.9.9.1", 1304), Files: at("127.9.9.1", 1305)}, {API: at("::1", 443), Files: at("::1", 1305)}},
		Expires: time.Unix(2_000_000_000, 0), Admission: secret,
	}
	if err := invited.Keep(dir, i); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "invitation")
}

func TestInvitationFillsInOptions(t *testing.T) {
	file := invite(t, filepath.Join(t.TempDir(), "d"), invitation.Node{Role: identity.RoleSN, Name: "sn-d"}, invitation.Node{Role: identity.RoleSL, Name: "d"}, invitation.Node{Role: identity.RoleSWOP, Name: "swop-d"})
	common := "--trustDomain=a.example --swarm-id=swarm --spiffe-prefix=/swarm --serverAddress=10.0.0.9 --serverPort=8082 "
	for args, want := range map[string]string{
		"run-sl":   "--name=d " + common + "--sn-ip=127.9.9.1:1304 --sn-ip=[::1]:443 --host-ip=127.0.0.1",
		"run-swop": "--name=swop-d " + common + "--sn-ip=127.9.9.1:1304 --sn-ip=[::1]:443 --host-ip=127.0.0.1",
		"run-sn":   "--name=sn-d " + common + "--join=127.9.9.1:1305 --join=[::1]:1305 --host-ip=127.0.0.1",
		"run-sl --name=d --swarm-id=swarm --host-ip=h": "--trustDomain=a.example --spiffe-prefix=/swarm --serverAddress=10.0.0.9 --serverPort=8082 --sn-ip=127.9.9.1:1304 --sn-ip=[::1]:443",
		// Where things are a host may know better.
		"run-sl --sn-ip=x --serverAddress=y --host-ip=h":               "--name=d --trustDomain=a.example --swarm-id=swarm --spiffe-prefix=/swarm",
		"run-sl --sn-api-service=x --serverPort=1 --host-ip=h":         "--name=d --trustDomain=a.example --swarm-id=swarm --spiffe-prefix=/swarm --serverAddress=10.0.0.9",
		"run-sn --sentinel-ip=x --host-ip=h":                           "--name=sn-d " + strings.TrimSpace(common),
		"run-sl --model-program=p --sn-ip=x --host-ip=h":               "--name=d " + common + "--model-dir=.",
		"run-sl --model-program=p --model-dir=d --sn-ip=x --host-ip=h": "--name=d " + strings.TrimSpace(common),
	} {
		t.Run(args, func(t *testing.T) {
			e := environment(nil)
			e.invite = new(guest)
			given := append([]string{"swarmd"}, strings.Fields(args+" --invite="+file)...)
			got, err := withInvitation(t.Context(), newApp(e), given, e)
			if err != nil {
				t.Fatal(err)
			}
			if added := strings.Join(got[len(given):], " "); added != want {
				t.Errorf("got  %s\nwant %s", added, want)
			}
			if strings.Contains(strings.Join(got, " "), "secret") || e.invitation().Token != "secret" {
				t.Error("the token went another way")
			}
		})
	}
}

func TestInvitationAndOtherWords(t *testing.T) {
	file := invite(t, filepath.Join(t.TempDir(), "d"), invitation.Node{Role: identity.RoleSL, Name: "d"})
	for args, want := range map[string]string{
		"run-sn":                     "this invitation is for sl/d and not for an SN: start that with it, or ask an operator for another: swarmctl invite sn/NAME",
		"run-sl --name=e":            "--name says e and the invitation d, and nobody else is let in with it",
		"run-sl --trustDomain=b":     "--trustDomain says b and the invitation a.example",
		"run-sl --swarm-id=other":    "--swarm-id says other and the invitation swarm",
		"run-sl --spiffe-prefix=/":   "--spiffe-prefix says / and the invitation /swarm",
		"run-sl --cert=x":            "--invite brings the node's identity, --cert takes it from elsewhere: give one of the two",
		"run-sl --gen-join-token":    "--gen-join-token takes it from elsewhere",
		"run-sl --identity=embedded": "--identity takes it from elsewhere",
	} {
		e := environment(nil)
		e.invite = new(guest)
		if _, err := withInvitation(t.Context(), newApp(e), append([]string{"swarmd"}, strings.Fields(args+" --invite="+file)...), e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	sn := invite(t, filepath.Join(t.TempDir(), "d"), invitation.Node{Role: identity.RoleSN, Name: "d"})
	e := environment(nil)
	if _, err := withInvitation(t.Context(), newApp(e), []string{"swarmd", "run-sn", "--sentinel", "--invite=" + sn}, e); err == nil || !strings.Contains(err.Error(), "--sentinel founds a swarm") {
		t.Errorf("--sentinel: %v", err)
	}
}

// TestInvitationThatWasKept has nodes go on without --invite, where nothing else says who they are.
func TestInvitationThatWasKept(t *testing.T) {
	state := t.TempDir()
	invite(t, filepath.Join(state, "d"), invitation.Node{Role: identity.RoleSL, Name: "d"})
	for args, goesOn := range map[string]bool{
		"run-sl --state-dir=" + state + "/d":                           true,
		"run-sl --state-dir=" + state + "/d --name=d":                  true,
		"run-sl --state-dir=" + state + "/d --socket-path=s":           false,
		"run-sl --state-dir=" + state + "/d --serverAddress=s":         false,
		"run-sl --state-dir=" + state + "/d --identity=embedded":       false,
		"run-sl --state-dir=" + state + "/none":                        false,
		"run-sl --state-dir=" + state + "/d --runtime=docker":          false,
		"health --state-dir=" + state + "/d":                           false,
		"run-sl --state-dir=" + state + "/d --host-ip=h --sn-ip=other": true,
	} {
		e := environment(nil)
		e.invite = new(guest)
		given := append([]string{"swarmd"}, strings.Fields(args)...)
		got, err := withInvitation(t.Context(), newApp(e), given, e)
		if err != nil || (len(got) > len(given)) != goesOn || (e.invite.kept != "") != goesOn {
			t.Errorf("%s: %v, %v, %+v", args, got, err, e.invite)
		}
	}
	inContainer := environment(map[string]string{"SWARM_IN_CONTAINER": "1"})
	inContainer.invite = new(guest)
	if got, err := withInvitation(t.Context(), newApp(inContainer), []string{"swarmd", "run-sl", "--state-dir=" + state + "/d"}, inContainer); err != nil || len(got) != 3 {
		t.Errorf("in a container: %v, %v", got, err)
	}
}

// TestOnlyKept finds the state directory of a node that is started without a name.
func TestOnlyKept(t *testing.T) {
	nodes := t.TempDir()
	for _, tt := range []struct{ name, dir, err string }{
		{"", "", ""},
		{"d", "d", ""},
		{"e", "", "this host was invited for several nodes of role sl: say which one this is: --name d, or --name e"},
	} {
		if tt.name != "" {
			invite(t, filepath.Join(nodes, tt.name), invitation.Node{Role: identity.RoleSL, Name: tt.name})
		}
		dir, err := onlyKept(nodes, identity.RoleSL)
		if dir != "" {
			dir = filepath.Base(dir)
		}
		if dir != tt.dir || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("with %q: %q, %v", tt.name, dir, err)
		}
	}
}

// TestWhatAdmitsGoesBesideTheCommandLine: an SN in this process gets it, and so does one in a container, in a variable.
func TestWhatAdmitsGoesBesideTheCommandLine(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, claim.SecretSize)
	text := base64.RawURLEncoding.EncodeToString(secret)
	file := inviteTo(t, filepath.Join(t.TempDir(), "d"), secret, invitation.Node{Role: identity.RoleSN, Name: "sn-d"}, invitation.Node{Role: identity.RoleSL, Name: "sl-d"})
	filled := func(args string) (Env, []string) {
		e := environment(nil)
		e.invite = new(guest)
		got, err := withInvitation(t.Context(), newApp(e), append([]string{"swarmd"}, strings.Fields(args+" --host-ip=127.0.0.1 --state-dir="+t.TempDir()+"/node --invite="+file)...), e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.Join(got, " "), text) {
			t.Errorf("%s: the command line shows it: %v", args, got)
		}
		return e, got[1:]
	}
	e, args := filled("run-sn")
	err := parse(t, e, args, func(c *cli.Context) error {
		cfg, err := snConfig(c, e)
		if !bytes.Equal(cfg.Invitation, secret) {
			t.Errorf("the SN has %x", cfg.Invitation)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	spec, err := translated(t, e, args...)
	if err != nil || strings.Contains(strings.Join(spec.Args, " "), text) || !slices.Contains(spec.Vars, "SWARM_INVITATION_SECRET="+text) {
		t.Errorf("in a container: %v, %v", spec.Args, err)
	}
	e, args = filled("run-sl --attach")
	if spec, err := translated(t, e, args...); err != nil || strings.Contains(strings.Join(append(spec.Args, spec.Vars...), " "), text) {
		t.Errorf("an SL gets it: %v, %v", spec.Args, err)
	}
	t.Setenv("SWARM_INVITATION_SECRET", text[1:])
	in := environment(map[string]string{"SWARM_IN_CONTAINER": "1"})
	err = parse(t, in, []string{"run-sn", "--sentinel-ip=127.0.0.2", "--host-ip=127.0.0.1", "--socket-path=s", "--state-dir=" + t.TempDir() + "/node"}, func(c *cli.Context) error {
		_, err := snConfig(c, in)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "--invitation-secret is none") || strings.Contains(err.Error(), text[1:]) {
		t.Errorf("a cut secret: %v", err)
	}
}
