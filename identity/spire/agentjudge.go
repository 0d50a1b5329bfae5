package spire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc/codes"

	"github.com/swarmd/swarmd/internal/text"
)

// serverLimit bounds one look at the SPIRE server.
const serverLimit = 3 * time.Second

// watchStart looks once a second why the agent does not answer yet, until ctx ends.
func (a *Agent) watchStart(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		fault := a.setup.serverFault(ctx, a.state.trustDomain())
		if ctx.Err() != nil {
			return
		}
		a.state.judge(fault)
	}
}

// judge says why an agent that runs does not answer yet.
func (a *agentState) judge(fault error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.up {
		return
	}
	var end *permanent
	switch {
	case errors.As(fault, &end):
		select {
		case a.refused <- struct{}{}:
		default:
		}
		return
	case fault != nil:
		a.problem = fault.Error()
	case a.complaint != "":
		a.problem = fmt.Sprintf("the SPIRE server at %s answers, and the agent does not yet: %s", a.setup.server(), cause(a.complaint))
	case time.Since(a.since) > agentSlow:
		a.problem = fmt.Sprintf("%s runs, does not answer at %s and does not say why: see what it logs with -logLevel=debug", a.setup.binary, a.setup.socket)
	}
	a.sayLocked()
}

// refusedLocked is what to do about an agent that the server does not take.
func (a *agentState) refusedLocked() error {
	text := fmt.Sprintf("the SPIRE server at %s refuses this agent (%s): %s", a.setup.server(), cause(a.complaint), a.setup.rejoin(a.domain))
	kept := readSaved(a.setup.dataDir).usable(time.Now())
	invited := a.setup.invitedFor()
	switch {
	case invited != "" && a.gotToken && !kept: // its token is of no use, now or later
		return &permanent{fmt.Sprintf("the invitation of %s was used already, or taken back (the SPIRE server at %s says: %s): one host can use it, once; %s",
			invited, a.setup.server(), cause(a.complaint), askAgain(invited))}
	case a.joined && !kept: // it has dropped its identity, so that its next start may use a token
		return errors.New(text)
	case a.setup.cfg.GenJoinToken != nil && !a.gotToken: // it can't use what it has kept
		a.lostKey = true // so it gets a token with its next start
		return errors.New(text)
	}
	return &permanent{text}
}

// failure says why an agent has ended, or was ended: what is wrong with its server, what the server answered, or how the
// program ended, with its last lines. It may take serverLimit.
func (a *Agent) failure(ctx context.Context, end error) error {
	if !a.state.isUp() {
		if fault := a.setup.serverFault(ctx, a.state.trustDomain()); fault != nil {
			return fault
		}
	}
	return a.state.ended(end)
}

// ended says why an agent of whose server nothing bad is known has ended.
func (a *agentState) ended(end error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if code := refusal(a.complaint); code != codes.OK {
		return a.refusedLocked()
	}
	var e *childError
	if !errors.As(end, &e) {
		return end
	}
	text := fmt.Sprintf("spire-agent ended (%s)", e.how)
	if len(e.tail) > 0 {
		text += ": " + strings.Join(e.tail[max(0, len(e.tail)-2):], "; ")
	} else if a.setup.logFile != "" {
		text += ": see its log, " + a.setup.logFile
	}
	if a.everUp || a.setup.logFile != "" || strings.HasPrefix(e.how, "signal") || statusCode(a.complaint) != codes.OK {
		return errors.New(text)
	}
	// It has never run and complains of nothing that passes: of its configuration, say.
	return &permanent{text}
}

// trusted returns the certificates by which the agent knows its server, none if that is not known here, and whether they are what
// the agent has kept.
func (s *agentSetup) trusted() (bundle []*x509.Certificate, kept bool) {
	if kept := readSaved(s.dataDir).bundle; len(kept) > 0 {
		return kept, true
	}
	path := filepath.Join(s.cfg.StateDir, "bootstrap.pem")
	if s.trusts() {
		given, _ := argument(s.cfg.Args, "trustBundle")
		path = first(given, s.file.Agent.TrustBundle)
	}
	if path == "" || switched(s.cfg.Args, "insecureBootstrap") || s.file.Agent.Insecure {
		return nil, false
	}
	raw, err := readBounded(path)
	if err != nil {
		return nil, false // the agent says so
	}
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			bundle = append(bundle, cert)
		}
	}
	return bundle, false
}

// server is the address of the agent's SPIRE server, HOST:PORT.
func (s *agentSetup) server() string {
	port := defaultPort
	for _, p := range []int{s.file.Agent.ServerPort, s.cfg.ServerPort} {
		if p != 0 {
			port = p
		}
	}
	return net.JoinHostPort(first(s.cfg.ServerAddress, s.file.Agent.ServerAddress), strconv.Itoa(port))
}

// rejoin says what lets an agent join that its server does not take.
func (s *agentSetup) rejoin(domain string) string {
	if _, token := s.file.Plugins.NodeAttestor["join_token"]; token || len(s.file.Plugins.NodeAttestor) == 0 {
		return s.newToken(domain)
	}
	return fmt.Sprintf("correct the NodeAttestor in %s, or what the server knows of this agent (`spire-server agent list`)", s.cfg.ConfigFile)
}

// newToken says how to get one.
func (s *agentSetup) newToken(domain string) string {
	if invited := s.invitedFor(); invited != "" {
		return askAgain(invited)
	}
	domain = first(domain, DefaultTrustDomain)
	return fmt.Sprintf("make a new join token on the server's machine with `swarmd spire-token %s` (or `spire-server token generate -spiffeID spiffe://%s%s`) and give it by -joinToken",
		node(s.cfg.Role, s.cfg.NodeName), domain, AgentPath(s.cfg.Role, s.cfg.NodeName))
}

// invitedFor is for whom the invitation is from which the agent's join token comes, "" if it comes from elsewhere.
func (s *agentSetup) invitedFor() string {
	if source := s.cfg.GenJoinToken; source != nil && source.Invitation != nil {
		return source.Invitation.For()
	}
	return ""
}

// askAgain is the remedy where an invitation can't be used.
func askAgain(invited string) string {
	return "ask an operator for a new one: swarmctl invite " + strings.ReplaceAll(invited, ", ", " ")
}

// serverFault looks at the server as the agent sees it: does it answer, is it of the trust domain, and does its certificate fit
// what the agent trusts? It returns nil if nothing is wrong, and a *permanent for what no further try mends.
func (s *agentSetup) serverFault(ctx context.Context, domain string) error {
	server := s.server()
	if proxy, _ := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: server}}); proxy != nil {
		return nil // the agent goes through it, this look would not
	}
	certs, err := certificatesOf(ctx, server)
	if err != nil {
		return fmt.Errorf("the SPIRE server at %s does not answer (%w): start it, or correct -serverAddress or -serverPort; trying again", server, err)
	}
	id, err := x509svid.IDFromCert(certs[0])
	if err != nil {
		return fmt.Errorf("what answers at %s is no SPIRE server (%w): correct -serverAddress or -serverPort; trying again", server, err)
	}
	if got := id.TrustDomain().Name(); domain != "" && got != domain {
		return &permanent{fmt.Sprintf("the SPIRE server at %s is not of trust domain %s: correct -trustDomain or -serverAddress (it is %s)", server, domain, id)}
	}
	bundle, kept := s.trusted()
	if len(bundle) == 0 {
		return nil
	}
	if _, _, err = x509svid.Verify(certs, x509bundle.FromX509Authorities(id.TrustDomain(), bundle)); err == nil {
		return nil
	}
	if kept {
		return fmt.Errorf("the certificate of the SPIRE server at %s does not fit the bundle that this agent has kept: correct -serverAddress, or delete %s to join another server with a new token", server, s.dataDir)
	}
	return fmt.Errorf("the certificate of the SPIRE server at %s does not fit the trust bundle: give the right -trustBundle (`spire-server bundle show` prints it) or -serverAddress", server)
}

// certificatesOf returns the certificates, at least one, that a TLS server shows. Nothing is verified.
func certificatesOf(ctx context.Context, server string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, err
	}
	defer conn.Close()
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // it only looks
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates, nil
}

var statusText = regexp.MustCompile(`rpc error: code = (\w+) desc = `)

// statusCode is the first gRPC status in a text, as gRPC writes it: OK if there is none, Unknown for a code that is not known.
func statusCode(text string) codes.Code {
	m := statusText.FindStringSubmatch(text)
	if m == nil {
		return codes.OK
	}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == m[1] {
			return c
		}
	}
	return codes.Unknown
}

// refusal is the code with which the server refused what the agent asked for, OK if it did not.
func refusal(text string) codes.Code {
	switch c := statusCode(text); c {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.NotFound:
		return c
	}
	return codes.OK
}

// cause is the last part of a chain of errors, without gRPC's wrapping.
func cause(said string) string {
	for _, sep := range []string{"desc = ", "Error while dialing: "} {
		if i := strings.LastIndex(said, sep); i >= 0 {
			said = said[i+len(sep):]
		}
	}
	return text.Clip(quoted(strings.Trim(strings.ReplaceAll(said, `\"`, `"`), `" `)), 300)
}
