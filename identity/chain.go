package identity

import (
	"crypto/rsa"
	"crypto/x509"
	"fmt"
)

// Bounds of a chain of certificates that somebody else sends, in whatever way: they hold before the first signature is
// looked at, since checking one by a key of 45,000 bits takes a fifth of a second.
const (
	// MaxChain bounds the certificates.
	MaxChain = 8
	// MaxChainBytes bounds all of them together, in DER form, as the ledger does.
	MaxChainBytes = 16 << 10
	// MaxRSA bounds RSA keys, in bits, as TLS does.
	MaxRSA = 8192
)

// ParseCertificate parses a certificate and refuses one whose key is too large.
func ParseCertificate(der []byte) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return cert, CheckKey(cert)
}

// CheckKey refuses a certificate whose key is so large that its signatures take long to check.
func CheckKey(cert *x509.Certificate) error {
	if key, ok := cert.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > MaxRSA {
		return fmt.Errorf("it has an RSA key of %d bits, at most %d are taken", key.N.BitLen(), MaxRSA)
	}
	return nil
}

// ParseChain parses a chain of DER certificates, leaf first, within the bounds of this package. It verifies nothing.
func ParseChain(raw [][]byte) ([]*x509.Certificate, error) {
	if err := checkSizes(len(raw), func(i int) int { return len(raw[i]) }); err != nil {
		return nil, err
	}
	chain := make([]*x509.Certificate, len(raw))
	for i, der := range raw {
		var err error
		if chain[i], err = ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("certificate %d of the chain: %w", i+1, err)
		}
	}
	return chain, nil
}

// checkChain is what ParseChain demands, of a chain that was parsed by others.
func checkChain(chain []*x509.Certificate) error {
	if err := checkSizes(len(chain), func(i int) int { return len(chain[i].Raw) }); err != nil {
		return err
	}
	for i, cert := range chain {
		if err := CheckKey(cert); err != nil {
			return fmt.Errorf("certificate %d of the chain: %w", i+1, err)
		}
	}
	return nil
}

func checkSizes(certs int, size func(int) int) error {
	if certs == 0 || certs > MaxChain {
		return fmt.Errorf("chain has %d certificates: want 1 to %d", certs, MaxChain)
	}
	sum := 0
	for i := range certs {
		sum += size(i)
	}
	if sum > MaxChainBytes {
		return fmt.Errorf("chain has %d bytes: at most %d are taken", sum, MaxChainBytes)
	}
	return nil
}
