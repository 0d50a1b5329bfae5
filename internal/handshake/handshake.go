// Package handshake makes the handshake that a node's port speaks step by step, and says where it fails: for people whose nodes do not
// come together.
package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// stepWait bounds each step that waits for the other side.
	stepWait = 5 * time.Second
	// maxText bounds what is shown of words that come from the other side, in bytes.
	maxText = 1000
	// maxHeader bounds the header of its answer, in bytes.
	maxHeader = 64 << 10
)

// Config is who makes handshakes, and whom it accepts.
type Config struct {
	Source  identity.Source
	Domains identity.Domains
	SwarmID string           // expected; "" for any
	Now     func() time.Time // nil: the real clock
}

// Result is what came of a handshake. Its tags describe the JSON form that swarmctl prints.
type Result struct {
	Address string `json:"address" doc:"that was checked"`
	OK      bool   `json:"ok" doc:"all steps are well"`
	Steps   []Step `json:"steps" doc:"in order; those after a failed one are left out when they can not be taken"`
	Peer    *Peer  `json:"peer" doc:"what the certificate that it showed says, null when it showed none; believe it only if ok"`
}

// Step is one step of a handshake.
type Step struct {
	Step   string `json:"step" doc:"identity, name, connection, protocol, certificate, accepted here, accepted there, role, swarm or health"`
	OK     bool   `json:"ok" doc:"it is well"`
	Detail string `json:"detail" doc:"what was found, in words"`
}

// Peer is what the other side says of itself.
type Peer struct {
	SpiffeID    string  `json:"spiffe_id" doc:"that the certificate stands for, empty when for none"`
	Role        string  `json:"role" doc:"in the SPIFFE ID, empty when it is no swarm identity"`
	TrustDomain string  `json:"trust_domain" doc:"in the SPIFFE ID"`
	SwarmID     string  `json:"swarm_id" doc:"that it says to belong to, empty when it does not say or has none yet"`
	PeerID      string  `json:"peer_id" doc:"libp2p peer ID of its node key, empty for an API"`
	Issuer      string  `json:"issuer" doc:"of the certificate"`
	NotBefore   *string `json:"not_before" doc:"when its life began; RFC 3339, UTC"`
	NotAfter    *string `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
}

// Failed returns the first step that is not well; ok is false if all are.
func (r Result) Failed() (step Step, ok bool) {
	for _, s := range r.Steps {
		if !s.OK {
			return s, true
		}
	}
	return Step{}, false
}

// Checker makes one handshake.
type Checker struct {
	source  *recorder
	domains identity.Domains
	swarmID string
	now     func() time.Time
	own     identity.Status
	out     Result

	offset  time.Duration
	clocked bool
	trip    time.Duration
}

// RoundTrip is how long it took to connect, which is one way there and back; 0: it did not succeed.
func (c *Checker) RoundTrip() time.Duration { return c.trip }

// Offset is by how much the other side's clock is ahead of this one, to about half a second; ok is false if it did not tell, as only an API
// does.
func (c *Checker) Offset() (ahead time.Duration, ok bool) { return c.offset, c.clocked }

// New makes a checker, which is used once.
func New(cfg Config) *Checker {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Checker{source: &recorder{Source: cfg.Source}, domains: cfg.Domains, swarmID: cfg.SwarmID, now: cfg.Now}
}

// recorder keeps the chain that a peer showed, whether it is accepted or not.
type recorder struct {
	identity.Source

	mu    sync.Mutex
	chain []*x509.Certificate
}

var _ identity.CertReader = (*recorder)(nil)

// CertID implements identity.CertReader; it comes before VerifyChain, and alone for a certificate that stands for nobody.
func (r *recorder) CertID(leaf *x509.Certificate) (spiffeid.ID, error) {
	r.mu.Lock()
	if len(r.chain) == 0 {
		r.chain = []*x509.Certificate{leaf}
	}
	r.mu.Unlock()
	return identity.CertID(r.Source, leaf)
}

// VerifyChain implements identity.CertReader.
func (r *recorder) VerifyChain(chain []*x509.Certificate) (spiffeid.ID, error) {
	r.mu.Lock()
	r.chain = chain
	r.mu.Unlock()
	return identity.VerifyChain(r.Source, chain)
}

// leaf is the certificate that the peer showed, nil if none.
func (r *recorder) leaf() *x509.Certificate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.chain) == 0 {
		return nil
	}
	return r.chain[0]
}

// add records a step and returns whether it is well.
func (c *Checker) add(ok bool, step, format string, args ...any) bool {
	c.out.Steps = append(c.out.Steps, Step{Step: step, OK: ok, Detail: shown(fmt.Sprintf(format, args...))})
	c.out.OK = c.out.OK && ok
	return ok
}

// Run makes the handshake with HOST:PORT as the node or user that own describes. It blocks for five seconds a step at most.
func (c *Checker) Run(ctx context.Context, address string, own identity.Status) Result {
	c.run(ctx, address, own)
	return c.out
}

// Connect takes the first steps of a handshake alone: the name and the connection. It returns the last one, and closes the connection.
func Connect(ctx context.Context, address string) Step {
	c := New(Config{})
	if conn := c.connect(ctx, address); conn != nil {
		_ = conn.Close()
	}
	return c.out.Steps[len(c.out.Steps)-1]
}

func (c *Checker) run(ctx context.Context, address string, own identity.Status) {
	c.out, c.own = Result{Address: address, OK: true, Steps: []Step{}}, own
	if why := identity.Validity(own.NotBefore, own.NotAfter, c.now()); why != "" {
		c.add(false, "identity", "%s: our certificate %s", own.ID, why)
	} else {
		c.add(true, "identity", "we are %s, for another %s", own.ID, strings.TrimSuffix(left(own.NotAfter, c.now()), " left"))
	}
	raw := c.connect(ctx, address)
	if raw == nil {
		return
	}
	conn := tls.Client(raw, c.tlsConfig(address))
	defer conn.Close()
	tlsCtx, cancel := context.WithTimeout(ctx, stepWait)
	err := conn.HandshakeContext(tlsCtx)
	cancel()
	if err == nil || c.source.leaf() != nil {
		c.api(ctx, conn, err)
		return
	}
	// A port for traffic between nodes answers TLS with libp2p's greeting, or hangs up.
	_ = conn.Close()
	c.peer(ctx, address, err)
}

// tlsConfig is how to speak to an address.
func (c *Checker) tlsConfig(address string) *tls.Config {
	cfg := identity.MutualTLS(c.source, nil)
	cfg.ServerName, _, _ = net.SplitHostPort(address) // for proxies, which route by it
	cfg.NextProtos = []string{"h2", "http/1.1"}
	return cfg
}

// connect resolves the name and opens a TCP connection, or returns nil.
func (c *Checker) connect(ctx context.Context, address string) net.Conn {
	host, _, _ := net.SplitHostPort(address) // checked by the caller
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	if net.ParseIP(host) == nil {
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if !c.add(err == nil, "name", "%s", nameText(host, ips, err)) {
			return nil
		}
	}
	begun := c.now()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		c.trip = c.now().Sub(begun)
		c.add(true, "connection", "%s answers", conn.RemoteAddr())
		return conn
	case errors.Is(err, syscall.ECONNREFUSED):
		c.add(false, "connection", "nothing listens at %s: does the node run, and is this its port? An SN's API has 30304 by default", address)
	case isTimeout(err):
		c.add(false, "connection", "%s does not answer within %s: the host is off, or a firewall drops what is sent there", address, stepWait)
	default:
		c.add(false, "connection", "%v", err)
	}
	return nil
}

func nameText(host string, ips []string, err error) string {
	if err != nil {
		return fmt.Sprintf("%s does not resolve: give an address, or a name that this machine's DNS or /etc/hosts knows", host)
	}
	return fmt.Sprintf("%s is %s", host, strings.Join(ips[:min(len(ips), 4)], ", "))
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && n.Timeout()
}

// api judges a server that spoke TLS at once; err is the handshake's.
func (c *Checker) api(ctx context.Context, conn *tls.Conn, err error) {
	c.add(true, "protocol", "TLS, as the API of an SN")
	c.certificate()
	if c.stale() || !c.acceptedHere(err) {
		return
	}
	asked := c.now()
	res, err := ask(ctx, conn)
	if err == nil {
		c.clock(res.header.Get("Date"), asked)
	}
	switch {
	case isTimeout(err):
		c.add(false, "accepted there", "it makes the handshake and does not answer within %s", stepWait)
		return
	case err != nil:
		c.add(false, "accepted there", "it refuses our certificate (%s)%s", tlsAlert(err), c.guess())
		return
	case res.code == http.StatusUnauthorized:
		c.add(false, "accepted there", "it refuses our identity: %s", res.body)
		return
	}
	c.add(true, "accepted there", "it accepts ours")
	c.out.Peer.SwarmID = shown(res.header.Get("Swarm-Id"))
	c.add(c.out.Peer.Role == string(identity.RoleSN), "role", "%s", roleText(c.out.Peer.Role))
	c.swarm()
	switch {
	case res.code == http.StatusOK && res.body == "OK":
		c.add(true, "health", "healthy until %s", res.header.Get("Swarm-Healthy-Until"))
	case res.code == http.StatusServiceUnavailable:
		c.add(false, "health", "%s", res.body)
	default:
		c.add(false, "health", "it answers /is_up with status %d: is it an SN of swarmd?", res.code)
	}
}

// clock compares the clocks by the date on an answer to what was asked at a moment, which has whole seconds.
func (c *Checker) clock(date string, asked time.Time) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ours := asked.Add(c.now().Sub(asked) / 2)
	c.offset, c.clocked = theirs.Add(time.Second/2).Sub(ours), true
}

func roleText(role string) string {
	if role == string(identity.RoleSN) {
		return "sn, as an API must have"
	}
	return fmt.Sprintf("%s: clients of an API accept the role sn only", role)
}

// peer judges what may be a node's port for traffic between nodes; tlsErr is what it answered to TLS.
func (c *Checker) peer(ctx context.Context, address string, tlsErr error) {
	p, err := p2p.Probe(ctx, p2p.ProbeConfig{Source: c.source, Domains: c.domains}, address)
	if errors.Is(err, p2p.ErrNoSwarmNode) || err != nil && c.source.leaf() == nil {
		c.add(false, "protocol", "%s", foreign(tlsErr))
		return
	}
	c.add(true, "protocol", "libp2p, as a node's port for other nodes")
	c.certificate()
	if c.stale() {
		return
	}
	refused, isRefused := errors.AsType[*p2p.RefusedError](err)
	switch {
	case isRefused:
		if c.acceptedHere(nil) {
			c.add(false, "accepted there", "it refuses us: %s", refused.Reason)
		}
		return
	case errors.Is(err, p2p.ErrOwnSVID):
		if c.acceptedHere(nil) {
			c.add(false, "accepted there", "it refuses our certificate (%s)%s", tlsAlert(err), c.guess())
		}
		return
	case err != nil:
		c.acceptedHere(err)
		return
	}
	c.acceptedHere(nil)
	c.add(true, "accepted there", "it accepts ours")
	c.out.Peer.SwarmID, c.out.Peer.PeerID = p.SwarmID, p.ID.String()
	c.add(true, "role", "%s", p.Identity.Role())
	c.swarm()
}

// foreign says what a port speaks that is none of ours, from what it answered to TLS.
func foreign(err error) string {
	const remedy = ": no node of a swarm listens there; check host and port"
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Sprintf("it speaks something else than a swarm node (it begins with %q)%s", record.RecordHeader[:], remedy)
	}
	switch {
	case isTimeout(err):
		return fmt.Sprintf("it says nothing within %s%s", stepWait, remedy)
	case isHangUp(err):
		return "it hangs up without a word" + remedy
	}
	return fmt.Sprintf("it speaks something else than a swarm node (%v)%s", err, remedy)
}

func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// certificate shows what the peer's certificate says, believed or not.
func (c *Checker) certificate() {
	leaf := c.source.leaf()
	if leaf == nil {
		return
	}
	p := &Peer{Issuer: shown(leaf.Issuer.String()), NotBefore: stampOf(leaf.NotBefore), NotAfter: stampOf(leaf.NotAfter)}
	c.out.Peer = p
	sid, err := identity.CertID(c.source.Source, leaf)
	who := "no SPIFFE ID (" + identity.CertName(leaf) + ")"
	if len(leaf.URIs) > 0 { // it may be one that our kind of identity does not take
		who = fmt.Sprintf("the URI SAN %.200q (%s)", leaf.URIs[0].String(), identity.CertName(leaf))
	}
	if err == nil {
		p.SpiffeID, p.TrustDomain, who = shown(sid.String()), shown(sid.TrustDomain().Name()), sid.String()
		if id, err := identity.ParseID(sid); err == nil {
			p.Role = string(id.Role())
		}
	}
	valid := fmt.Sprintf("valid from %s until %s, %s", leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339), left(leaf.NotAfter, c.now()))
	why := identity.Validity(leaf.NotBefore, leaf.NotAfter, c.now())
	if why != "" {
		valid = "it " + why
	}
	c.add(why == "" && err == nil, "certificate", "it shows %s, issued by %s; %s", text.Clip(who, 120), text.Clip(fmt.Sprintf("%q", leaf.Issuer.String()), 80), valid)
}

// stale judges the peer's certificate alone when ours is not valid now: then no handshake comes to its end.
func (c *Checker) stale() bool {
	if identity.Validity(c.own.NotBefore, c.own.NotAfter, c.now()) == "" {
		return false
	}
	c.source.mu.Lock()
	chain := c.source.chain
	c.source.mu.Unlock()
	_, err := identity.VerifyChain(c.source.Source, chain)
	c.acceptedHere(err)
	c.add(false, "accepted there", "not tried: our certificate is not valid now, see above")
	return true
}

// acceptedHere reports whether we accept the peer; err is the handshake's.
func (c *Checker) acceptedHere(err error) bool {
	if err == nil {
		var sid spiffeid.ID
		if sid, err = identity.CertID(c.source.Source, c.source.leaf()); err == nil {
			_, err = c.domains.Check(sid)
		}
	}
	if err != nil {
		text := err.Error()
		if _, why, ok := strings.Cut(text, p2p.ErrPeerSVID.Error()+": "); ok {
			text = why // what stands before it names the address again
		}
		return c.add(false, "accepted here", "we refuse it: %s", text)
	}
	return c.add(true, "accepted here", "we accept it")
}

// guess says why the peer may refuse our certificate: TLS gives no reasons.
func (c *Checker) guess() string {
	ours := c.own.ID.SPIFFE().TrustDomain().Name()
	if c.out.Peer != nil && c.out.Peer.TrustDomain != ours {
		return fmt.Sprintf(": its authorities must federate with trust domain %s, and it must be started with --trust-domain %s; its log says which it is", ours, ours)
	}
	return ": it may know another CA certificate of " + ours + ", or its clock may differ from ours; its log says which"
}

func tlsAlert(err error) string {
	if err == nil {
		return "no reason given"
	}
	if _, alert, ok := strings.Cut(err.Error(), "remote error: tls: "); ok {
		return "it says only: " + alert
	}
	return "it hangs up after the handshake"
}

// stampOf renders a moment as RFC 3339 in UTC, nil for none.
func stampOf(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &s
}

func left(t, now time.Time) string {
	if !t.After(now) {
		return health.Words(now.Sub(t)) + " ago"
	}
	return health.Words(t.Sub(now)) + " left"
}

// swarm compares the peer's swarm with the expected one.
func (c *Checker) swarm() {
	id := c.out.Peer.SwarmID
	switch {
	case id == "":
		c.add(true, "swarm", "none yet, or it does not say")
	case c.swarmID != "" && id != c.swarmID:
		c.add(false, "swarm", "it belongs to swarm %s, this context to %s", id, c.swarmID)
	default:
		c.add(true, "swarm", "%s", id)
	}
}

// answer is what /is_up says.
type answer struct {
	code   int
	header http.Header
	body   string
}

// ask calls /is_up on the connection: the server judges our certificate only when it reads after the handshake.
func ask(ctx context.Context, conn *tls.Conn) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	var used atomic.Bool
	t := &http.Transport{Protocols: new(http.Protocols), MaxResponseHeaderBytes: maxHeader, DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, io.ErrUnexpectedEOF // the first one was hung up
		}
		return conn, nil
	}}
	t.Protocols.SetHTTP2(true)
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+conn.RemoteAddr().String()+"/is_up", nil)
	if err != nil {
		return answer{}, err
	}
	res, err := (&http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxText))
	return answer{res.StatusCode, res.Header, strings.TrimSpace(string(body))}, err
}

// shown keeps what is shown on one line of sensible length.
func shown(s string) string { return text.Clip(text.Line(s), maxText) }
