package claim_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/swarmd/swarmd/identity/claim"
)

// TestClaim: a signature is for one swarm, name and node key, and for one invitation.
func TestClaim(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte{7}, claim.SecretSize)
	key, sig := claim.KeyOf(secret), claim.Sign(secret, "swarm", "sn-d", "12D3")
	if !claim.Verify(key, "swarm", "sn-d", "12D3", sig) || len(key) != claim.KeySize || len(sig) != claim.SignatureSize {
		t.Fatal("an honest claim is refused")
	}
	if bytes.Contains(key, secret) || bytes.Contains(sig, secret) {
		t.Error("it gives the secret away")
	}
	other := claim.KeyOf(bytes.Repeat([]byte{8}, claim.SecretSize))
	for name, ok := range map[string]bool{
		"another swarm":      claim.Verify(key, "swarms", "sn-d", "12D3", sig),
		"another name":       claim.Verify(key, "swarm", "sn-e", "12D3", sig),
		"another node key":   claim.Verify(key, "swarm", "sn-d", "12D4", sig),
		"fields moved":       claim.Verify(key, "swar", "msn-d", "12D3", sig),
		"another invitation": claim.Verify(other, "swarm", "sn-d", "12D3", sig),
		"no key":             claim.Verify(nil, "swarm", "sn-d", "12D3", sig),
		"a short key":        claim.Verify(key[1:], "swarm", "sn-d", "12D3", sig),
		"no signature":       claim.Verify(key, "swarm", "sn-d", "12D3", nil),
		"a cut signature":    claim.Verify(key, "swarm", "sn-d", "12D3", sig[1:]),
	} {
		if ok {
			t.Errorf("%s: it is taken", name)
		}
	}
	if claim.KeyOf(secret[1:]) != nil || claim.Sign(nil, "swarm", "sn-d", "12D3") != nil {
		t.Error("a short secret is one")
	}
}

// TestFormat holds the bytes: what was signed once stands in ledgers.
func TestFormat(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte{7}, claim.SecretSize)
	const want = "d73987a8c3a9224b7c7447f925d2bab2ba45a5eef8a2fe428d893e2c191dfc83f48addd58e68c41992c9b8fd163fc376b20522ed983ca96bd9aecea23cafae04"
	if got := hex.EncodeToString(claim.Sign(secret, "swarm", "sn-d", "12D3")); got != want {
		t.Errorf("got %s", got)
	}
}
