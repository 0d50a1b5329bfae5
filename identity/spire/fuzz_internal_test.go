package spire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"
)

// certificates are one that names a trust domain, as PEM.
func certificates(f *testing.F) []byte {
	f.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<32, 0), URIs: []*url.URL{{Scheme: "spiffe", Host: "example.org", Path: "/x"}}}
	der, err := x509.CreateCertificate(nil, c, c, key.Public(), key)
	if err != nil {
		f.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// FuzzJoin reads a token as a program or a server's machine gives it.
func FuzzJoin(f *testing.F) {
	good, err := json.Marshal(Join{Token: "0f-1", TrustDomain: "example.org", Bundle: certificates(f)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"token":"$(reboot)","trust_domain":"a b"}`))
	f.Add([]byte(`{"token":"x","bundle":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := parseJoin(raw, "a test")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("not plain: %q", err)
			}
			return
		}
		if !word.MatchString(j.Token) || strings.ContainsAny(j.Token, " \n\"'`$;&|<>()\\") {
			t.Errorf("token %q", j.Token)
		}
		if _, err := bundleDomain(j.Bundle); err != nil {
			t.Error(err)
		}
	})
}

// FuzzKept reads what an agent has kept of its identity.
func FuzzKept(f *testing.F) {
	good, err := json.Marshal(map[string][][]byte{"svid": {certificates(f)}, "bundle": {certificates(f), []byte("x")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"svid":[null],"bundle":[null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		k := parseSaved(raw)
		if k.usable(time.Now()) && k.svid == nil {
			t.Error("usable without a certificate")
		}
		_ = k.domain()
		if got := bytes.Count(k.pem(), []byte("BEGIN CERTIFICATE")); got != len(k.bundle) {
			t.Errorf("%d of %d certificates", got, len(k.bundle))
		}
	})
}

// FuzzConfigurations reads files of SPIRE that users wrote, as HCL or JSON.
func FuzzConfigurations(f *testing.F) {
	f.Add(`agent { server_address = "s" server_port = 8081 trust_domain = "d" }`)
	f.Add(`server { socket_path = "/s" trust_domain = "d" bind_port = 1 } plugins { A "b" { plugin_data {} } }`)
	f.Add(`{"agent":{"server_address":"s"},"server":[{"bind_port":1}]}`)
	f.Add(`agent "x" "y" { server_address = ["s"] }`)
	f.Add("agent = <<E\n$\nE")
	f.Add(`{"\0`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		_, _ = parseAgentFile(text)
		_, _ = parseSettings(text)
	})
}
