// Package certs takes a node's identity from X.509 files instead of an agent, and makes such files.
//
// A certificate tells its role by the SPIFFE ID in its URI SAN or, where both sides say so (--cert-roles cn), by the
// prefix of its common name, as the certificates of the original's generator do. The two kinds never mix: a certificate
// of the one kind is refused by a node of the other.
//
// Where a node's own certificate has neither, but is exactly of that generator's form, and no option speaks of roles or trust
// domains, CA and CN tell: the trust domain that such a certificate stands for is made of its CA's digest.
//
// A CA certificate that names a trust domain (URI SAN spiffe://DOMAIN) is trusted for that one only; one that names none
// is trusted for the node's own trust domain and those given with --trust-domain. With CN roles every CA is trusted for
// every role, since nothing in a certificate limits it.
package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
)

const (
	defaultPoll = time.Second
	// readAgain is how long files are believed unchanged because their times and sizes are: a clock of coarse steps and
	// a network file system's cache hide a change for a while.
	readAgain = 30 * time.Second
	// failuresTold is how many looks in a row must fail before it is said: certificate and key are replaced one after the
	// other.
	failuresTold = 2
)

// FilesConfig says which files are a node's identity.
type FilesConfig struct {
	Cert, Key string // PEM: the chain, leaf first, and its key; may be one file
	// CACert is a file and CAPath a directory of PEM files with CA certificates; at least one is given.
	CACert, CAPath string
	// Roles is RolesSPIFFE or RolesCN; empty: by SPIFFE IDs, unless Cert is one of the original's gen-cert and TrustDomains is
	// empty.
	Roles string
	// Prefix is that of the paths of SPIFFE IDs.
	Prefix identity.Prefix
	// Role is the node's role; "" takes any.
	Role identity.Role
	// Else is another role that is taken too; "" is none.
	Else identity.Role
	// Name is the node's name: a SPIFFE ID with another one is refused; "" takes any.
	Name string
	// TrustDomains are those accepted beside the own one; CAs that name no trust domain are trusted for them too.
	TrustDomains []string
	// Poll is how often the files are looked at, a second if zero.
	Poll time.Duration
	Log  *slog.Logger
}

// FileSource is an identity.Provider kept fresh by watching files. It is safe for concurrent use.
type FileSource struct {
	cfg    FilesConfig
	by     kind
	extra  []spiffeid.TrustDomain
	cancel context.CancelFunc
	done   chan struct{}

	// Only the watching goroutine uses these.
	stamp    string    // of the last look
	readAt   time.Time // of the last whole reading
	failures int       // looks in a row
	told     string    // the last problem that was logged
	expiry   identity.ExpiryLog

	// mu guards what follows.
	mu      sync.Mutex
	now     *state // nil when closed
	changed chan struct{}
	updated time.Time
	problem string
}

var (
	_ identity.Provider   = (*FileSource)(nil)
	_ identity.CertReader = (*FileSource)(nil)
)

// OpenFiles reads the files once and then watches them until Close. It fails when they are missing, do not fit each
// other or the node, or are not valid now; the error names option and file. It waits for nothing.
func OpenFiles(ctx context.Context, cfg FilesConfig) (*FileSource, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Poll <= 0 {
		cfg.Poll = defaultPoll
	}
	s := &FileSource{cfg: cfg, by: cfg.kind(), done: make(chan struct{}), changed: make(chan struct{})}
	for _, name := range cfg.TrustDomains {
		td, err := spiffeid.TrustDomainFromString(name)
		if err != nil {
			return nil, fmt.Errorf("--trust-domain %q: %w", name, err)
		}
		s.extra = append(s.extra, td)
	}
	s.stamp, s.readAt = s.look(), time.Now()
	first, err := s.read(nil)
	if err != nil {
		return nil, err
	}
	s.now, s.updated = first, time.Now()
	if s.by == byCA {
		cfg.Log.Warn("certificates without SPIFFE ID are accepted, as the original's gen-cert makes them: every CA certificate given may make nodes of every role, SNs included; certificates of swarmctl cert init and cert issue are safer",
			"spiffe_id", first.id.String(), "ca_certificates", len(first.cas))
	}
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go func() {
		defer close(s.done)
		s.watch(watch)
	}()
	return s, nil
}

func (c *FilesConfig) validate() error {
	switch c.Roles = strings.ToLower(c.Roles); c.Roles {
	case "", RolesSPIFFE, RolesCN:
	default:
		return fmt.Errorf("--cert-roles %s: want spiffe or cn", c.Roles)
	}
	switch {
	case c.Cert == "" && c.Key == "":
		return errors.New("--cert and --key are missing: give this node's certificate and its key")
	case c.Cert == "":
		return errors.New("--cert is missing: --key needs the certificate that it belongs to")
	case c.Key == "":
		return errors.New("--key is missing: --cert needs its private key")
	case c.CACert == "" && c.CAPath == "":
		return errors.New("--cacert or --capath is missing: give the CA certificates whom to trust")
	}
	return nil
}

// watch looks at the files until ctx ends.
func (s *FileSource) watch(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	for {
		now := time.Now()
		if s.expiry.Check(s.Status(), false, now, s.cfg.Log) {
			s.publish(nil, s.Status().Problem, true)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.poll(time.Now())
		}
	}
}

// poll reads the files if they may have changed. What fails is read again at every look.
func (s *FileSource) poll(now time.Time) {
	stamp := s.look() // before reading: what is written after it is seen at the next look
	if stamp == s.stamp && s.failures == 0 && now.Sub(s.readAt) < readAgain {
		return
	}
	s.stamp, s.readAt = stamp, now
	s.mu.Lock()
	old := s.now
	s.mu.Unlock()
	if old == nil {
		return
	}
	next, err := s.read(old)
	if err == nil {
		if s.told != "" {
			s.cfg.Log.Info("certificate files are usable again", "cert", s.cfg.Cert)
		}
		s.failures, s.told = 0, ""
		s.publish(next, "", next != old)
		return
	}
	s.failures++
	if next != old {
		s.publish(next, "", true) // the CAs alone
	}
	if s.failures < failuresTold {
		return
	}
	if text := err.Error(); s.told != text {
		s.told = text
		s.cfg.Log.Warn("certificate files are not usable: keeping the last ones, trying again", "error", text, "expires", old.svid.Certificates[0].NotAfter)
	}
	s.publish(nil, err.Error(), false)
}

// publish takes over a state (nil: keeps the one that is) and tells who waits, if there is news.
func (s *FileSource) publish(next *state, problem string, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return
	}
	if next != nil && next != s.now {
		if next.svid != s.now.svid {
			s.cfg.Log.Info("certificate was renewed", "spiffe_id", next.id.String(), "expires", next.svid.Certificates[0].NotAfter)
		} else {
			s.cfg.Log.Info("CA certificates have changed", "count", len(next.cas))
		}
		s.now, s.updated = next, time.Now()
	}
	if !news && problem == s.problem {
		return
	}
	s.problem = problem
	close(s.changed)
	s.changed = make(chan struct{})
}

// look is what the file system says of all files: it changes when one of them does.
func (s *FileSource) look() string {
	var b strings.Builder
	add := func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", path, err)
			return
		}
		fmt.Fprintf(&b, "%q %s\n", path, fileStamp(info))
	}
	add(s.cfg.Cert)
	add(s.cfg.Key)
	files, err := caFiles(s.cfg.CACert, s.cfg.CAPath)
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	for _, f := range files {
		add(f.path)
	}
	return b.String()
}

// read reads all files and returns the state that follows old (nil: the first one): old itself when nothing is new. CAs
// count even where the pair of certificate and key does not: with an error the state that is returned has new CAs and
// the old pair.
func (s *FileSource) read(old *state) (*state, error) {
	cas, err := readCAs(s.cfg.CACert, s.cfg.CAPath)
	if err != nil {
		return old, err
	}
	svid, id, err := s.readPair(cas)
	if err != nil && old == nil {
		return nil, err
	}
	if old != nil && slices.EqualFunc(cas, old.cas, (*x509.Certificate).Equal) {
		cas = old.cas
	}
	if old != nil && err == nil && sameChain(svid, old.svid) {
		svid, id = old.svid, old.id
	}
	own := id
	if old != nil {
		own = old.id
	}
	bundles, caErr := newBundles(cas, s.by, append([]spiffeid.TrustDomain{own.SPIFFE().TrustDomain()}, s.extra...))
	if caErr != nil {
		return old, caErr
	}
	if old == nil {
		next := &state{by: s.by, prefix: s.cfg.Prefix, svid: svid, id: id, cas: cas, bundles: bundles}
		return next, s.fits(next, nil)
	}
	kept := old
	if !slices.Equal(cas, old.cas) {
		kept = &state{by: s.by, prefix: s.cfg.Prefix, svid: old.svid, id: old.id, cas: cas, bundles: bundles}
	}
	if err != nil {
		return kept, err
	}
	next := kept
	if svid != old.svid {
		next = &state{by: s.by, prefix: s.cfg.Prefix, svid: svid, id: id, cas: cas, bundles: bundles}
	}
	if err := s.fits(next, old); err != nil {
		return kept, err
	}
	return next, nil
}

func sameChain(a, b *x509svid.SVID) bool {
	return slices.EqualFunc(a.Certificates, b.Certificates, (*x509.Certificate).Equal)
}

// readPair reads certificate and key and checks that they belong together and to this node.
func (s *FileSource) readPair(cas []*x509.Certificate) (*x509svid.SVID, identity.ID, error) {
	badCert := func(err error) error { return &FileError{"--cert", s.cfg.Cert, false, err} }
	badKey := func(err error) error { return &FileError{"--key", s.cfg.Key, false, err} }
	data, err := readFile(s.cfg.Cert, maxPair, false)
	if err != nil {
		return nil, identity.ID{}, badCert(err)
	}
	keyData, err := readFile(s.cfg.Key, maxPair, true)
	if err != nil {
		return nil, identity.ID{}, badKey(err)
	}
	chain, err := parseCertificates(data, identity.MaxChain)
	if err == nil && len(chain) == 0 {
		err = errors.New("it has no certificate in PEM form")
	}
	if err != nil {
		return nil, identity.ID{}, badCert(err)
	}
	key, err := parseKey(keyData)
	if err != nil {
		return nil, identity.ID{}, badKey(err)
	}
	if !belongs(key, chain[0]) {
		for _, c := range chain[1:] {
			if belongs(key, c) {
				return nil, identity.ID{}, badCert(errors.New("the node's own certificate must stand first in it"))
			}
		}
		return nil, identity.ID{}, badKey(fmt.Errorf("it is not the key of the certificate in %s (%s): give the key that was made with it", s.cfg.Cert, identity.CertName(chain[0])))
	}
	sid, err := (&state{by: s.by, prefix: s.cfg.Prefix, cas: cas}).CertID(chain[0])
	if err != nil {
		return nil, identity.ID{}, badCert(err)
	}
	id, err := identity.ParseID(sid)
	if err != nil {
		return nil, identity.ID{}, badCert(err)
	}
	if err := s.isOurs(id); err != nil {
		return nil, identity.ID{}, badCert(err)
	}
	return &x509svid.SVID{ID: sid, Certificates: chain, PrivateKey: key}, id, nil
}

// isOurs checks that an identity is of this node's role and name.
func (s *FileSource) isOurs(id identity.ID) error {
	if s.cfg.Role != "" && id.Role() != s.cfg.Role && (s.cfg.Else == "" || id.Role() != s.cfg.Else) {
		return fmt.Errorf("the certificate is for the role %s, this node is of the role %s", id.Role(), s.cfg.Role)
	}
	if name := id.NodeName(); s.cfg.Name != "" && name != "" && name != s.cfg.Name {
		return fmt.Errorf("the certificate is for the node %q, this node's name is %q: give --name %s, or its own certificate", name, s.cfg.Name, name)
	}
	return nil
}

// fits checks that the pair of a state is valid now, signed by a CA of it and a successor of the old pair.
func (s *FileSource) fits(next, old *state) error {
	bad := func(err error) error { return &FileError{"--cert", s.cfg.Cert, false, err} }
	if old != nil && next.id.SPIFFE().TrustDomain() != old.id.SPIFFE().TrustDomain() {
		return bad(fmt.Errorf("the trust domain has changed from %s to %s: restart the node", old.id.SPIFFE().TrustDomain(), next.id.SPIFFE().TrustDomain()))
	}
	if old != nil && old.id.NodeName() != "" && next.id.NodeName() != old.id.NodeName() {
		return bad(fmt.Errorf("%s has taken the place of %s: restart the node if that is meant", next.id, old.id))
	}
	leaf := next.svid.Certificates[0]
	if text := identity.Validity(leaf.NotBefore, leaf.NotAfter, time.Now()); text != "" {
		return bad(errors.New("the certificate " + text))
	}
	if _, err := identity.VerifyChain(next, next.svid.Certificates); err != nil {
		return bad(err)
	}
	return nil
}

// current returns what was read last.
func (s *FileSource) current() (*state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil, errors.New("identity source is closed")
	}
	return s.now, nil
}

// GetX509SVID returns the certificate and key that were taken last. The certificate may have expired since.
func (s *FileSource) GetX509SVID() (*x509svid.SVID, error) {
	now, err := s.current()
	if err != nil {
		return nil, fmt.Errorf("get certificate: %w", err)
	}
	return now.svid, nil
}

// GetX509BundleForTrustDomain returns the CA certificates that are trusted for a trust domain.
func (s *FileSource) GetX509BundleForTrustDomain(td spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	now, err := s.current()
	if err != nil {
		return nil, fmt.Errorf("get CA certificates: %w", err)
	}
	return now.GetX509BundleForTrustDomain(td)
}

// CertID returns the SPIFFE ID that a certificate stands for: its own, or that of its CN's role.
func (s *FileSource) CertID(leaf *x509.Certificate) (spiffeid.ID, error) {
	now, err := s.current()
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("read certificate: %w", err)
	}
	return now.CertID(leaf)
}

// Accepted returns the trust domains that the files accept by themselves beside the node's own, as of now: those of all CAs where
// these stand for trust domains.
func (s *FileSource) Accepted() []spiffeid.TrustDomain {
	now, err := s.current()
	if err != nil || s.by != byCA {
		return nil
	}
	var out []spiffeid.TrustDomain
	for _, b := range now.bundles.Bundles() {
		out = append(out, b.TrustDomain())
	}
	return out
}

// VerifyChain verifies a peer's chain, leaf first, against the CA certificates as of now.
func (s *FileSource) VerifyChain(chain []*x509.Certificate) (spiffeid.ID, error) {
	now, err := s.current()
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("verify certificate: %w", err)
	}
	return now.VerifyChain(chain)
}

// VerifyChainAt is VerifyChain as of a time, by the CA certificates of now.
func (s *FileSource) VerifyChainAt(chain []*x509.Certificate, at time.Time) (spiffeid.ID, error) {
	now, err := s.current()
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("verify certificate: %w", err)
	}
	return now.VerifyChainAt(chain, at)
}

// ID returns the identity of the current certificate, the zero value after Close.
func (s *FileSource) ID() identity.ID {
	if now, err := s.current(); err == nil {
		return now.id
	}
	return identity.ID{}
}

// Changed returns a channel that is closed at the next change of certificate, CAs or Status.
func (s *FileSource) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Status tells what there is to know of the identity now.
func (s *FileSource) Status() identity.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := identity.Status{Origin: "certificate file " + s.cfg.Cert, Updated: s.updated, Problem: s.problem}
	switch s.by {
	case byCN:
		st.Origin += ", role from its CN"
	case byCA:
		st.Origin += ", role from its CN, trust domain from its CA"
	}
	if s.now == nil {
		return st
	}
	leaf := s.now.svid.Certificates[0]
	st.ID, st.NotBefore, st.NotAfter, st.Domains = s.now.id, leaf.NotBefore, leaf.NotAfter, s.now.domains()
	now := time.Now()
	st.Warnings = identity.Warnings(st.NotBefore, st.NotAfter, now, false)
	if text := identity.Validity(st.NotBefore, st.NotAfter, now); st.Problem == "" && text != "" {
		st.Problem = "the certificate in " + s.cfg.Cert + " " + text
	}
	return st
}

// Close stops watching and waits until that has ended. The source gives nothing any more.
func (s *FileSource) Close() error {
	s.mu.Lock()
	s.now = nil
	s.mu.Unlock()
	s.cancel()
	<-s.done
	return nil
}

func (s *state) domains() []string {
	var names []string
	for _, b := range s.bundles.Bundles() {
		names = append(names, b.TrustDomain().Name())
	}
	slices.Sort(names)
	return names
}
