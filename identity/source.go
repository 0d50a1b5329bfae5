package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// A node that waits for its first SVID says so after firstNotice, and again every waitNotice.
	firstNotice = time.Second
	waitNotice  = 30 * time.Second
	// entryNotice is how long an agent may take to learn of a node's entry before it is called missing: agent and server
	// ask for news every five seconds.
	entryNotice = 8 * time.Second
	// watchAgain is how long a source waits after its client gave the Workload API up.
	watchAgain = 5 * time.Second
	// expiryLook is the longest time between two looks at the SVID's age.
	expiryLook = time.Minute
	// maxUnixPath is the longest path of a unix socket on Linux, its final zero byte not counted.
	maxUnixPath = 107
)

// SourceConfig says where a node's identity comes from and which one it is.
type SourceConfig struct {
	// Socket is the Workload API's unix socket: a path or a unix:// URL.
	Socket string
	// Role is the node's role. "" takes any swarm role, as a tool does that only shows its identity.
	Role Role
	// Else is another role that is taken where there is no SVID of Role; "" is none.
	Else Role
	// Name is the node's name: an SVID /swarm/<role>/<Name> is preferred, and once one was used a shared
	// /swarm/<role> is never taken again.
	Name string
	// Prefix is that of the SPIFFE IDs' paths, the node's own and its peers'.
	Prefix Prefix
	// Log receives waits, rotations and errors of the Workload API.
	Log *slog.Logger
	// Explain says what to do about the last answer while there is no SVID yet, "" leaves the words to the source. It may
	// be nil, gets nil when there was no answer, and may block for a second.
	Explain func(last error) string
}

// WorkloadSource is a Source kept fresh by the SPIFFE Workload API. It is safe for concurrent use.
type WorkloadSource struct {
	cfg    SourceConfig
	cancel context.CancelFunc
	done   chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	svid    *x509svid.SVID
	id      ID
	bundles *x509bundle.Set
	changed chan struct{}
	updated time.Time
	lastErr error
	warned  bool // of the outage that goes on
	expiry  ExpiryLog
	closed  bool
}

var (
	_ Provider   = (*WorkloadSource)(nil)
	_ CertReader = (*WorkloadSource)(nil)
	_ PastReader = (*WorkloadSource)(nil)
)

// OpenSource waits until the Workload API's socket exists and gives an SVID for the node, and says every few seconds
// what it waits for. It ends early only when ctx does. The caller closes the source; ctx bounds only the opening.
func OpenSource(ctx context.Context, cfg SourceConfig) (*WorkloadSource, error) {
	addr, err := socketAddr(cfg.Socket)
	if err != nil {
		return nil, err
	}
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(addr), workloadapi.WithBackoffStrategy(retryStrategy{}))
	if err != nil {
		return nil, fmt.Errorf("open identity source: %w", err)
	}
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &WorkloadSource{cfg: cfg, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		defer func() { _ = client.Close() }()
		s.watch(watchCtx, client)
	})
	running.Go(func() { s.watchExpiry(watchCtx) })
	go func() {
		running.Wait()
		close(s.done)
	}()
	if err := s.waitFirst(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// watch follows the Workload API until ctx ends. Its client gives up at some answers; a node that runs for months must
// not lose its identity for one of them.
func (s *WorkloadSource) watch(ctx context.Context, client *workloadapi.Client) {
	for {
		err := client.WatchX509Context(ctx, s)
		if ctx.Err() != nil {
			return
		}
		s.OnX509ContextWatchError(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchAgain):
		}
	}
}

// watchExpiry logs what is to be said of the SVID's age until ctx ends.
func (s *WorkloadSource) watchExpiry(ctx context.Context) {
	for {
		s.mu.Lock()
		changed, wait := s.changed, expiryLook
		if s.svid != nil {
			leaf := s.svid.Certificates[0]
			now := time.Now()
			if s.expiry.Check(s.status(now), true, now, s.cfg.Log) {
				s.notify() // Status says it too
				changed = s.changed
			}
			wait = min(wait, max(leaf.NotAfter.Sub(leaf.NotBefore)/60, 100*time.Millisecond))
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(wait):
		}
	}
}

// notify tells who waits on Changed; the caller holds mu.
func (s *WorkloadSource) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *WorkloadSource) waitFirst(ctx context.Context) error {
	start := time.Now()
	notice := time.NewTimer(firstNotice)
	defer notice.Stop()
	for {
		s.mu.Lock()
		ready, changed, lastErr := s.svid != nil, s.changed, s.lastErr
		s.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if lastErr != nil {
				return fmt.Errorf("open identity source: no SVID from %s: %w (last answer: %w)", s.cfg.Socket, context.Cause(ctx), lastErr)
			}
			return fmt.Errorf("open identity source: no SVID from %s: %w", s.cfg.Socket, context.Cause(ctx))
		case <-notice.C:
			if rest := entryNotice - time.Since(start); rest > 0 && status.Code(lastErr) == codes.PermissionDenied {
				s.cfg.Log.Info("waiting for the agent to learn of this node's entry; that takes some seconds", "want", s.want())
				notice.Reset(rest)
				continue
			}
			s.cfg.Log.Info("waiting for an identity; trying again", "want", s.want(), "why", s.why(lastErr))
			notice.Reset(waitNotice)
		}
	}
}

// OnX509ContextUpdate takes an update of the Workload API; only its client calls it.
func (s *WorkloadSource) OnX509ContextUpdate(update *workloadapi.X509Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warned {
		s.warned = false
		s.cfg.Log.Info("workload API answers again", "socket", s.cfg.Socket)
	}
	s.updated = time.Now()
	s.bundles = update.Bundles // always: a bundle's rotation must count even where no SVID fits
	svid, id, err := s.pick(update.SVIDs)
	if err != nil {
		if s.svid != nil {
			s.cfg.Log.Warn("no usable SVID in the update, keeping the last one until it expires", "error", err, "spiffe_id", s.id.String(), "expires", s.svid.Certificates[0].NotAfter)
		}
		s.lastErr = err
	} else {
		s.svid, s.id, s.lastErr = svid, id, nil
		s.cfg.Log.Debug("identity updated", "spiffe_id", id.String(), "expires", svid.Certificates[0].NotAfter)
	}
	s.notify()
}

// OnX509ContextWatchError takes an error of the Workload API; its client retries by itself.
func (s *WorkloadSource) OnX509ContextWatchError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if told := s.lastErr; told == nil || told.Error() != err.Error() {
		defer s.notify()
	}
	s.lastErr = err
	if s.svid != nil && !s.closed && !s.warned {
		s.warned = true
		s.cfg.Log.Warn("workload API does not answer: keeping the last identity until it expires, trying again", "error", status.Convert(err).Message(), "socket", s.cfg.Socket, "expires", s.svid.Certificates[0].NotAfter)
	}
}

// pick chooses an SVID of the node's role, else of the other one that it takes.
func (s *WorkloadSource) pick(svids []*x509svid.SVID) (*x509svid.SVID, ID, error) {
	svid, id, err := s.pickOf(s.cfg.Role, svids)
	if err != nil && s.cfg.Else != "" {
		if svid, id, err := s.pickOf(s.cfg.Else, svids); err == nil {
			return svid, id, nil
		}
	}
	return svid, id, err
}

// pickOf chooses the SVID of the node's own name, else a shared one of a role unless an own one was ever used.
func (s *WorkloadSource) pickOf(role Role, svids []*x509svid.SVID) (*x509svid.SVID, ID, error) {
	var (
		shared   *x509svid.SVID
		sharedID ID
		got      []string
	)
	for _, svid := range svids {
		got = append(got, svid.ID.String())
		svid, id, err := s.read(svid)
		if err != nil || role != "" && id.Role() != role {
			continue
		}
		switch {
		case id.NodeName() != "" && (id.NodeName() == s.cfg.Name || s.cfg.Name == ""):
			return svid, id, nil
		case id.NodeName() == "" && shared == nil:
			shared, sharedID = svid, id
		}
	}
	if shared == nil {
		check := "check the registration entries"
		if slices.ContainsFunc(svids, s.otherwise) {
			check = "if it is meant for this node, " + otherPrefix
		}
		return nil, ID{}, fmt.Errorf("workload API gives no SVID for %s (it gives: %s): %s", s.want(), strings.Join(got, ", "), check)
	}
	if s.id.NodeName() != "" {
		return nil, ID{}, fmt.Errorf("workload API no longer gives %s: a shared SVID is not taken instead", s.id)
	}
	return shared, sharedID, nil
}

// otherPrefix is the remedy where an SVID's path ends as the node's would, and begins otherwise.
const otherPrefix = "say with --spiffe-prefix what stands before the role in its path"

// otherwise reports whether an SVID is of the node's role but for the beginning of its path.
func (s *WorkloadSource) otherwise(svid *x509svid.SVID) bool {
	return s.cfg.Role != "" && !strings.HasPrefix(svid.ID.Path(), s.cfg.Prefix.String()) && strings.Contains(svid.ID.Path()+"/", "/"+string(s.cfg.Role)+"/")
}

// OtherPrefix reports whether an answer of the Workload API lacks nothing but the option --spiffe-prefix.
func OtherPrefix(last error) bool { return last != nil && strings.Contains(last.Error(), otherPrefix) }

// read returns an SVID as the swarm names it, which shares the other's certificates.
func (s *WorkloadSource) read(svid *x509svid.SVID) (*x509svid.SVID, ID, error) {
	own, err := s.cfg.Prefix.Read(svid.ID)
	if err != nil {
		return nil, ID{}, err
	}
	if own != svid.ID {
		renamed := *svid
		renamed.ID = own
		svid = &renamed
	}
	id, err := ParseID(own)
	return svid, id, err
}

// why says in one line why there is no SVID yet.
func (s *WorkloadSource) why(last error) string {
	if s.cfg.Explain != nil {
		if text := s.cfg.Explain(last); text != "" {
			return text
		}
	}
	path := strings.TrimPrefix(strings.TrimPrefix(s.cfg.Socket, "unix://"), "unix:")
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nobody serves %s: start the SPIFFE agent or `swarmd run-authority`, or correct --identity or --socket-path", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%s may not be opened by this user: run as its owner", path)
	case err == nil:
		_ = conn.Close() // it was only asked whether it is there
	}
	if last != nil {
		return last.Error()
	}
	return "no answer yet from " + path
}

func (s *WorkloadSource) want() string {
	role := string(s.cfg.Role)
	if role == "" {
		role = "ROLE"
	}
	if s.cfg.Name == "" {
		return s.cfg.Prefix.String() + role
	}
	return s.cfg.Prefix.String() + role + "/" + s.cfg.Name + " or " + s.cfg.Prefix.String() + role
}

// GetX509SVID returns the current SVID. It may have expired if the Workload API stopped renewing it.
func (s *WorkloadSource) GetX509SVID() (*x509svid.SVID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.svid == nil {
		return nil, errors.New("get SVID: identity source is closed")
	}
	return s.svid, nil
}

// GetX509BundleForTrustDomain returns the current bundle of a trust domain.
func (s *WorkloadSource) GetX509BundleForTrustDomain(td spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	s.mu.Lock()
	bundles, closed := s.bundles, s.closed
	s.mu.Unlock()
	if closed || bundles == nil {
		return nil, errors.New("get bundle: identity source is closed")
	}
	if !bundles.Has(td) {
		return nil, &UnknownDomainError{Domain: td, Known: domainNames(bundles)}
	}
	return bundles.GetX509BundleForTrustDomain(td)
}

// CertID returns the SPIFFE ID that a certificate stands for in the swarm's own form.
func (s *WorkloadSource) CertID(leaf *x509.Certificate) (spiffeid.ID, error) {
	id, err := LeafID(leaf)
	if err == nil && IsCNDomain(id.TrustDomain()) {
		err = fmt.Errorf("the certificate names the trust domain %s, which stands for certificates without SPIFFE ID", id.TrustDomain())
	}
	if err != nil {
		return spiffeid.ID{}, err
	}
	return s.cfg.Prefix.Read(id)
}

// VerifyChain verifies a peer's chain, leaf first, against the bundles of now.
func (s *WorkloadSource) VerifyChain(chain []*x509.Certificate) (spiffeid.ID, error) {
	return s.VerifyChainAt(chain, time.Now())
}

// VerifyChainAt is VerifyChain as of a time, by the bundles of now.
func (s *WorkloadSource) VerifyChainAt(chain []*x509.Certificate, at time.Time) (spiffeid.ID, error) {
	id, err := VerifyWithin(s, chain, at)
	if err != nil {
		return spiffeid.ID{}, err
	}
	return s.cfg.Prefix.Read(id)
}

func domainNames(bundles *x509bundle.Set) []string {
	var names []string
	for _, b := range bundles.Bundles() {
		names = append(names, b.TrustDomain().Name())
	}
	slices.Sort(names)
	return names
}

// ID returns the identity of the current SVID.
func (s *WorkloadSource) ID() ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Changed returns a channel that is closed at the next update of SVID or bundles.
func (s *WorkloadSource) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Status tells what there is to know of the identity now.
func (s *WorkloadSource) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status(time.Now())
}

// status is Status; the caller holds mu.
func (s *WorkloadSource) status(now time.Time) Status {
	st := Status{Origin: "Workload API at " + strings.TrimPrefix(strings.TrimPrefix(s.cfg.Socket, "unix://"), "unix:"), ID: s.id, Updated: s.updated}
	if s.bundles != nil {
		st.Domains = domainNames(s.bundles)
	}
	if s.lastErr != nil {
		st.Problem = status.Convert(s.lastErr).Message()
	}
	if s.svid == nil {
		return st
	}
	st.NotBefore, st.NotAfter = s.svid.Certificates[0].NotBefore, s.svid.Certificates[0].NotAfter
	st.Warnings = Warnings(st.NotBefore, st.NotAfter, now, true)
	if !now.Before(st.NotAfter) {
		// The agent lives and is silent while its server is away: nothing else tells.
		expired := fmt.Sprintf("the SVID expired at %s and no other came: handshakes fail until one does", inUTC(st.NotAfter))
		if st.Problem != "" {
			expired += "; last answer: " + st.Problem
		}
		st.Problem = expired
	}
	return st
}

// Close stops watching and waits until that has ended. The source gives nothing any more.
func (s *WorkloadSource) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	<-s.done
	return nil
}

// UnixPath is the path of a unix socket that is named by it, or by a URL: unix:///PATH or unix:/PATH.
func UnixPath(socket string) string {
	return strings.TrimPrefix(strings.TrimPrefix(socket, "unix://"), "unix:")
}

// socketAddr turns a path or URL into the address that go-spiffe takes.
func socketAddr(socket string) (string, error) {
	path := UnixPath(socket)
	if path == "" {
		return "", errors.New("open identity source: no workload API socket given: use --socket-path or SPIFFE_ENDPOINT_SOCKET")
	}
	if strings.HasPrefix(socket, "tcp:") {
		return "", fmt.Errorf("open identity source: %s: only unix sockets are supported", socket)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open identity source: %w", err)
	}
	if len(abs) > maxUnixPath {
		return "", fmt.Errorf("open identity source: socket path %s has %d bytes: unix sockets allow %d; use a shorter path", abs, len(abs), maxUnixPath)
	}
	return "unix://" + abs, nil
}

// retryStrategy retries a Workload API that does not answer soon at first, since a node is often started with its
// agent, and every few seconds later.
type retryStrategy struct{}

func (retryStrategy) NewBackoff() workloadapi.Backoff {
	return &retryBackoff{next: 50 * time.Millisecond}
}

type retryBackoff struct{ next time.Duration }

func (b *retryBackoff) Next() time.Duration {
	d := b.next
	b.next = min(2*b.next, 5*time.Second)
	return d
}

func (b *retryBackoff) Reset() { b.next = 50 * time.Millisecond }
