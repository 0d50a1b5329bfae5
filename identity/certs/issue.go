package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// Names and defaults of the files that are made.
const (
	CACertFile         = "ca.pem"
	CAKeyFile          = "ca-key.pem"
	DefaultTrustDomain = "swarm.learning"
	DefaultDays        = 90

	caLifetime = 10 * 365 * 24 * time.Hour
	// Certificates are valid from a little in the past: clocks differ.
	backdate = 5 * time.Minute
	maxHosts = 32
)

// ErrCAExists reports that a directory has a CA already, which is never written over.
var ErrCAExists = errors.New("there is a CA already")

// CA signs certificates of nodes. Its key is in memory.
type CA struct {
	cert   *x509.Certificate
	key    crypto.Signer
	domain spiffeid.TrustDomain // zero for one of CN roles
}

// InitCA makes a CA in dir (0700 if it is made): CACertFile, and CAKeyFile with mode 0600. An empty trust domain makes
// one for CN roles. Fails with ErrCAExists when either file is there.
func InitCA(dir, trustDomain string, now time.Time) (*CA, error) {
	ca := &CA{}
	subject := pkix.Name{Organization: []string{"swarmd"}, CommonName: "swarm CA for CN roles"}
	if trustDomain != "" {
		td, err := spiffeid.TrustDomainFromString(trustDomain)
		if err != nil {
			return nil, fmt.Errorf("--trust-domain %q: %w", trustDomain, err)
		}
		if td == cnDomain() {
			return nil, fmt.Errorf("--trust-domain %q stands for certificates without SPIFFE ID: use another name", trustDomain)
		}
		ca.domain, subject.CommonName = td, "swarm CA of "+td.Name()
		if len(subject.CommonName) > 64 { // X.520's bound
			subject.CommonName = "swarm CA"
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	for _, name := range []string{CAKeyFile, CACertFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("make CA in %s: %w (%s)", dir, ErrCAExists, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	ca.key = key
	template := &x509.Certificate{
		Subject: subject, NotBefore: now.Add(-backdate), NotAfter: now.Add(caLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if !ca.domain.IsZero() {
		template.URIs = []*url.URL{ca.domain.ID().URL()}
	}
	if ca.cert, err = sign(template, template, key.Public(), key); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	// O_EXCL: of two that make one at the same time the second fails.
	if err := writeNew(filepath.Join(dir, CAKeyFile), keyPEM, 0o600); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	if err := writeNew(filepath.Join(dir, CACertFile), encodeCerts(ca.cert), 0o644); err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	return ca, nil
}

// LoadCA reads the CA that InitCA made in dir.
func LoadCA(dir string) (*CA, error) {
	certPath, keyPath := filepath.Join(dir, CACertFile), filepath.Join(dir, CAKeyFile)
	certData, err := readFile(certPath, maxPair, false)
	if err != nil {
		return nil, &FileError{"load CA", certPath, false, err}
	}
	keyData, err := readFile(keyPath, maxPair, true)
	if err != nil {
		return nil, &FileError{"load CA", keyPath, false, err}
	}
	chain, err := parseCertificates(certData, 1)
	if err == nil && (len(chain) == 0 || !chain[0].IsCA) {
		err = errors.New("it has no CA certificate")
	}
	if err != nil {
		return nil, &FileError{"load CA", certPath, false, err}
	}
	key, err := parseKey(keyData)
	if err == nil && !belongs(key, chain[0]) {
		err = errors.New("it is not the key of " + certPath)
	}
	if err != nil {
		return nil, &FileError{"load CA", keyPath, false, err}
	}
	domain, err := caDomain(chain[0])
	if err != nil {
		return nil, &FileError{"load CA", certPath, false, err}
	}
	return &CA{chain[0], key, domain}, nil
}

// Cert returns the CA's certificate.
func (ca *CA) Cert() *x509.Certificate { return ca.cert }

// TrustDomain is that of the CA's certificates, "" for a CA of CN roles.
func (ca *CA) TrustDomain() string { return ca.domain.Name() }

// IssueConfig says for whom a certificate is. Either Role or CN is given.
type IssueConfig struct {
	Role identity.Role
	Name string // of the node; "" makes one that all nodes of the role may share
	CN   string // "SL-2": a certificate without SPIFFE ID
	// Hosts are DNS names and IP addresses under which the node is reached; swarmd itself does not need them.
	Hosts []string
	Days  int // of life; 0: DefaultDays
}

// Issued is a new certificate with its key, in PEM.
type Issued struct {
	Cert            *x509.Certificate
	CertPEM, KeyPEM []byte
}

// Issue makes a certificate with a key of its own, valid from a little before now. It ends with its CA at the latest.
func (ca *CA) Issue(cfg IssueConfig, now time.Time) (*Issued, error) {
	template := &x509.Certificate{
		NotBefore: now.Add(-backdate), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if err := ca.subject(template, cfg); err != nil {
		return nil, err
	}
	if err := addHosts(template, cfg.Hosts); err != nil {
		return nil, err
	}
	days := cfg.Days
	if days == 0 {
		days = DefaultDays
	}
	if days < 1 || days > 3650 {
		return nil, fmt.Errorf("--days %d: want 1 to 3650", days)
	}
	if text := identity.Validity(ca.cert.NotBefore, ca.cert.NotAfter, now); text != "" {
		return nil, errors.New("the CA's certificate " + text)
	}
	template.NotAfter = now.AddDate(0, 0, days)
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	cert, err := sign(template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return &Issued{Cert: cert, CertPEM: encodeCerts(cert), KeyPEM: keyPEM}, nil
}

// subject puts in whom the certificate is for.
func (ca *CA) subject(template *x509.Certificate, cfg IssueConfig) error {
	if cfg.CN != "" {
		if !ca.domain.IsZero() {
			return fmt.Errorf("the CA is that of the trust domain %s: certificates without SPIFFE ID need a CA of their own, made by swarmctl cert init --cn-roles", ca.domain)
		}
		if _, err := RoleOfCN(cfg.CN); err != nil {
			return err
		}
		if err := naming.CheckNode(cfg.CN); err != nil {
			return fmt.Errorf("CN: %w", err)
		}
		template.Subject = pkix.Name{OrganizationalUnit: []string{"Swarm-Learning"}, CommonName: cfg.CN}
		template.DNSNames = []string{cfg.CN}
		return nil
	}
	if ca.domain.IsZero() {
		return errors.New("the CA names no trust domain: it is for certificates with roles in the CN, issue them with --cn, or make another CA by swarmctl cert init")
	}
	path := []string{"swarm", string(cfg.Role)}
	cn := string(cfg.Role)
	if cfg.Name != "" {
		path, cn = append(path, cfg.Name), cn+" "+cfg.Name
	}
	if len(cn) > 64 {
		cn = string(cfg.Role)
	}
	id, err := spiffeid.FromSegments(ca.domain, path...)
	if err == nil {
		_, err = identity.ParseID(id)
	}
	if err != nil {
		return err
	}
	template.URIs = []*url.URL{id.URL()}
	template.Subject = pkix.Name{Organization: []string{"swarmd"}, CommonName: cn}
	return nil
}

func addHosts(template *x509.Certificate, hosts []string) error {
	if len(hosts) > maxHosts {
		return fmt.Errorf("--host is given %d times: at most %d", len(hosts), maxHosts)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if !hostName(h) {
			return fmt.Errorf("--host %.80q is neither a host name nor an IP address", h)
		}
		template.DNSNames = append(template.DNSNames, h)
	}
	return nil
}

// hostName reports whether s is a DNS name in ASCII, without port or wildcard.
func hostName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, r := range label {
			if r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
				return false
			}
		}
	}
	return true
}

func sign(template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func encodeCerts(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	err := atomicfile.New(path, data, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w (%s)", ErrCAExists, path)
	}
	return err
}

// Write puts certificate and key into files, key first (0600), each replaced whole: a node that reads them meanwhile
// sees a pair that does not belong together at worst, and keeps its old one until both are there.
func (i *Issued) Write(certPath, keyPath string) error {
	for _, f := range []struct {
		path string
		data []byte
		mode fs.FileMode
	}{{keyPath, i.KeyPEM, 0o600}, {certPath, i.CertPEM, 0o644}} {
		if err := atomicfile.Replace(f.path, f.data, f.mode); err != nil {
			return fmt.Errorf("write certificate: %w", err)
		}
	}
	return nil
}

// ReadCertificates returns the certificates of a PEM file, in their order.
func ReadCertificates(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path, maxCAFile, false)
	if err != nil {
		return nil, &FileError{"read certificates", path, false, err}
	}
	certs, err := parseCertificates(data, maxCAs)
	if err != nil {
		return nil, &FileError{"read certificates", path, false, err}
	}
	if len(certs) == 0 {
		return nil, &FileError{"read certificates", path, false, errors.New("it has no certificate in PEM form")}
	}
	return certs, nil
}
