package spire_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/invitation"
)

// TestEntryWithoutARestart makes the entry that a start with --node would make, once.
func TestEntryWithoutARestart(t *testing.T) {
	t.Parallel()
	dir := spiretest.TempDir(t)
	port := strconv.Itoa(spiretest.FreePort(t))
	s := start(t, spire.ServerConfig{Args: []string{"-bindAddress", "127.0.0.1", "-serverPort", port}}, dir).ready(t)
	api, err := spire.OpenServer(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	for i, made := range []bool{true, false} {
		path, got, err := api.EnsureEntry(t.Context(), identity.RoleSL, "hospital-d")
		if path != "/swarm/sl-agent/hospital-d" || got != made || err != nil {
			t.Errorf("call %d: %s, %t, %v", i, path, got, err)
		}
	}
	want := seed("swarm.learning")
	want["swarm.sl.hospital-d"] = own("swarm.learning", "sl", "hospital-d", "swarm-learning-node hospital-d")
	if diff := cmp.Diff(want, s.entries(t, true)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	bundle, _, err := api.Bundle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := spire.PortOf(s.socket); got != 8081 { // the configuration's; the option is nowhere to be read
		t.Errorf("port %d", got)
	}
	server := net.JoinHostPort("127.0.0.1", port)
	if err := spire.CheckServer(t.Context(), server, bundle); err != nil {
		t.Error(err)
	}
	_, stranger := authority(t, time.Now(), time.Hour)
	if err := spire.CheckServer(t.Context(), server, stranger); err == nil || !strings.Contains(err.Error(), "is another one") {
		t.Errorf("with another's bundle: %v", err)
	}
	if err := spire.CheckServer(t.Context(), "127.0.0.1:1", bundle); err == nil || !strings.Contains(err.Error(), "no SPIRE server answers at 127.0.0.1:1") {
		t.Errorf("where nobody is: %v", err)
	}
}

// authority is a certificate that lives so long, as it is and as PEM.
func authority(t *testing.T, from time.Time, life time.Duration) (der, bundle []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(life), IsCA: true, BasicConstraintsValid: true}
	der, err = x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTrustedUntil(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_900_000_000, 0)
	der1, day := authority(t, from, 24*time.Hour)
	der2, year := authority(t, from, 366*24*time.Hour)
	for name, tt := range map[string]struct {
		bundle []byte
		want   time.Duration
	}{
		"a day":  {day, 20 * time.Hour},
		"a year": {year, 359 * 24 * time.Hour},
		"both":   {append(day[:len(day):len(day)], year...), 359 * 24 * time.Hour},
	} {
		if got, err := spire.TrustedUntil(tt.bundle); !got.Equal(from.Add(tt.want)) || err != nil {
			t.Errorf("%s: %v, %v, want %v", name, got, err, from.Add(tt.want))
		}
	}
	if got, err := spire.BundleDER(append(day[:len(day):len(day)], year...)); string(got) != string(der1)+string(der2) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := spire.TrustedUntil([]byte("hello")); err == nil {
		t.Error("nothing is trusted")
	}
}

// TestInvitedAgents has two processes of a host, and one of another, with one invitation.
func TestInvitedAgents(t *testing.T) {
	t.Parallel()
	s := spiretest.NewServer(t, spiretest.Options{})
	s.CreateEntry(spiretest.Entry{ID: "/swarm/sn/sn-1", Parent: "/swarm/sn-agent/sn-1", Selectors: []string{spiretest.UID()}})
	api, err := spire.OpenServer(s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	token, err := api.JoinToken(t.Context(), []string{"/swarm/sn-agent/sn-1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	bundle, domain, err := api.Bundle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := &invitation.Invitation{
		Nodes: []invitation.Node{{Role: identity.RoleSN, Name: "sn-1"}}, Token: token, TrustDomain: domain, Expires: time.Now().Add(time.Hour),
	}
	if i.Bundle, err = spire.BundleDER(bundle); err != nil {
		t.Fatal(err)
	}
	invited := func(dir string) (spire.AgentConfig, *agentLog) {
		cfg, log := agentFor(t, s)
		cfg.JoinToken, cfg.Args, cfg.TrustDomain, cfg.StateDir, cfg.Shared = "", nil, domain, dir, true
		cfg.GenJoinToken = &spire.TokenSource{Invitation: i}
		return cfg, log
	}
	dir := filepath.Join(spiretest.TempDir(t), "spire-agent")
	if spire.HasJoined(dir) {
		t.Error("it has joined before it began")
	}
	cfg, _ := invited(dir)
	first := startAgent(t, cfg)
	cfg, log := invited(dir)
	second := startAgent(t, cfg)
	log.sees(t, "the SPIRE agent of another component on this host is used")
	if got := fetch(t, second.Socket()); got != "spiffe://swarm.learning/swarm/sn/sn-1" || second.Socket() != first.Socket() {
		t.Errorf("got %s at %s", got, second.Socket())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	log.sees(t, "this one runs it from now on")
	log.sees(t, "SPIRE agent is ready")
	if got := fetch(t, second.Socket()); got != "spiffe://swarm.learning/swarm/sn/sn-1" || !spire.HasJoined(dir) {
		t.Errorf("got %s after it was taken over", got)
	}
	cfg, _ = invited(filepath.Join(spiretest.TempDir(t), "spire-agent"))
	if why := failing(t, cfg); !strings.Contains(why, "the invitation of sn/sn-1 was used already, or taken back") || !strings.Contains(why, "swarmctl invite sn/sn-1") || strings.Contains(why, "\n") {
		t.Errorf("used: %s", why)
	}
	i.Expires = time.Now().Add(-time.Second)
	cfg, _ = invited(filepath.Join(spiretest.TempDir(t), "spire-agent"))
	if why := failing(t, cfg); !strings.Contains(why, "the invitation of sn/sn-1 expired at ") || !strings.Contains(why, "swarmctl invite sn/sn-1") || strings.Contains(why, "\n") {
		t.Errorf("expired: %s", why)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	third := startAgent(t, func() spire.AgentConfig { cfg, _ := invited(dir); return cfg }()) // expired, and not needed
	if err := third.Close(); err != nil {
		t.Error(err)
	}
}
