package spire

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire/attestor"
)

// agentLog reads along in the agent's log, and passes on what users should see.
type agentLog struct {
	agent *Agent
	next  slog.Handler
}

func (h *agentLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *agentLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &agentLog{h.agent, h.next.WithAttrs(attrs)}
}

func (h *agentLog) WithGroup(name string) slog.Handler {
	return &agentLog{h.agent, h.next.WithGroup(name)}
}

func (h *agentLog) Handle(ctx context.Context, r slog.Record) error {
	fields := map[string]string{}
	r.Attrs(func(at slog.Attr) bool {
		fields[at.Key] = at.Value.String()
		return true
	})
	if understood := h.agent.heard(r.Message, r.Level, fields); understood {
		r.Level = slog.LevelDebug // it is said in our words
	}
	if r.Level < h.agent.threshold() || !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// threshold is the level from which on the agent's lines are passed on: the user's -logLevel, else warning, since what
// matters of a start that goes well is said in words of our own.
func (a *Agent) threshold() slog.Level {
	name, given := argument(a.cfg.Args, "logLevel")
	if !given {
		return slog.LevelWarn
	}
	return level(strings.ToLower(name))
}

// heard takes a line of the agent's log, and tells whether it is a problem that is told in words of our own.
func (a *Agent) heard(msg string, at slog.Level, fields map[string]string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case msg == "PID attested to have selectors" && fields["pid"] == strconv.Itoa(os.Getpid()):
		a.selectors = parseSelectors(fields["selectors"])
		return false
	case msg == "No identity issued" && fields["pid"] == strconv.Itoa(os.Getpid()):
		return true // whoever waits for it says it, with a remedy
	case msg == "Node attestation was successful" || msg == "SVID loaded":
		a.agentID = fields["spiffe_id"]
		return false
	case !a.up && isStartNoise(msg, fields["error"]):
		return true // what it waits for is said, with a remedy
	case at < slog.LevelWarn, a.up: // an agent that is up goes on whatever it complains of
		return false
	}
	text, fatal := a.diagnose(msg + ": " + fields["error"])
	if text == "" {
		return false
	}
	a.problem, a.heardOf = text, text
	if fatal {
		if a.cfg.GenJoinToken != nil && text == a.needsToken() {
			a.lostKey = true // so it gets one with its next start
		} else {
			a.fatal = &permanent{text}
		}
		select {
		case a.stop <- struct{}{}:
		default:
		}
		return true
	}
	a.sayLocked()
	return true
}

// isStartNoise tells whether a line says no more than that an agent has not come up yet, has no identity yet, or was told
// to stop before it had one.
func isStartNoise(msg, err string) bool {
	return strings.HasPrefix(msg, "Health check") || strings.HasPrefix(msg, "Keys recovered, but no SVID found") ||
		msg == "Agent crashed" && err == "context canceled"
}

// diagnose puts a complaint of the agent into words with a remedy, "" if it has none. fatal: no further try helps.
func (a *Agent) diagnose(text string) (words string, fatal bool) {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	server := net.JoinHostPort(first(a.cfg.ServerAddress, a.file.Agent.ServerAddress), strconv.Itoa(a.port()))
	switch {
	case has("join token does not exist or has already been used"):
		return "the join token was used already, or another SPIRE server made it: " + a.newToken(), true
	case has("join token expired"):
		return "the join token has expired: " + a.newToken(), true
	case has("join token was not provided", "join token must be provided", "no join token"):
		return a.needsToken(), true
	case has("unexpected trust domain", "expected server SPIFFE ID", "unexpected ID", "could not get X509 bundle", "is not a member of trust domain"):
		return fmt.Sprintf("the SPIRE server at %s is not of trust domain %s: correct -trustDomain or -serverAddress (%s)", server, a.domain, cause(text)), true
	case has("certificate signed by unknown authority") && readKept(a.dataDir).svid != nil:
		return fmt.Sprintf("the certificate of the SPIRE server at %s does not fit the bundle that this agent has kept: correct -serverAddress, or delete %s to join another server with a new token", server, a.dataDir), false
	case has("certificate signed by unknown authority"):
		return fmt.Sprintf("the certificate of the SPIRE server at %s does not fit the trust bundle: give the right -trustBundle (`spire-server bundle show` prints it) or -serverAddress", server), false
	case has("connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host", "connection reset", "DeadlineExceeded", "code = Unavailable"):
		return fmt.Sprintf("the SPIRE server at %s does not answer (%s): start it, or correct -serverAddress or -serverPort; trying again", server, cause(text)), false
	case has("agent is not attested", "agent is banned", "Agent is banned", "agent expired"):
		return fmt.Sprintf("the SPIRE server no longer knows this agent (%s): %s", cause(text), a.newToken()), false
	}
	return "", false
}

func (a *Agent) port() int {
	for _, p := range []int{a.cfg.ServerPort, a.file.Agent.ServerPort} {
		if p != 0 {
			return p
		}
	}
	return defaultPort
}

func (a *Agent) needsToken() string { return "the agent needs a join token: " + a.newToken() }

// newToken says how to get one.
func (a *Agent) newToken() string {
	domain := first(a.domain, DefaultTrustDomain)
	return fmt.Sprintf("make a new one on the server's machine with `swarmd spire-token %s` (or `spire-server token generate -spiffeID spiffe://%s%s`) and give it by -joinToken",
		node(a.cfg.Role, a.cfg.NodeName), domain, AgentPath(a.cfg.Role, a.cfg.NodeName))
}

// cause is the last part of a chain of errors, without gRPC's wrapping.
func cause(text string) string {
	for _, sep := range []string{"desc = ", "Error while dialing: "} {
		if i := strings.LastIndex(text, sep); i >= 0 {
			text = text[i+len(sep):]
		}
	}
	return cut(strings.Trim(strings.ReplaceAll(text, `\"`, `"`), `" `), 300)
}

// sayProblem repeats what the agent waits for.
func (a *Agent) sayProblem() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sayLocked()
}

func (a *Agent) sayLocked() {
	if a.problem == "" || a.up || a.saidWhat == a.problem && time.Since(a.said) < agentNotice {
		return
	}
	a.said, a.saidWhat = time.Now(), a.problem
	a.cfg.Log.Warn("waiting for the SPIRE agent", "why", a.problem)
}

var (
	selectorText = regexp.MustCompile(`type:"((?:[^"\\]|\\.)*)"\s+value:"((?:[^"\\]|\\.)*)"`)
	selectorJSON = regexp.MustCompile(`map\[type:(\S+) value:([^\]]*)\]`)
)

// maxSelectors bounds what is kept of the agent's log.
const maxSelectors = 64

// parseSelectors reads selectors as the agent logs them, in text or JSON.
func parseSelectors(text string) []string {
	matches := selectorText.FindAllStringSubmatch(text, maxSelectors)
	if matches == nil {
		matches = selectorJSON.FindAllStringSubmatch(text, maxSelectors)
	}
	selectors := []string{}
	for _, m := range matches {
		selectors = append(selectors, m[1]+":"+m[2])
	}
	return selectors
}

// Explain says why this process gets no identity from the agent, with the command that would help. last is the Workload
// API's last answer. It suits identity.SourceConfig.
func (a *Agent) Explain(last error) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.up && a.problem != "" {
		return "the SPIRE agent is down: " + a.problem
	}
	if last == nil {
		return ""
	}
	parent := a.agentID
	if a.alias != "" && a.domain != "" {
		parent = "spiffe://" + a.domain + a.alias
	}
	text := noEntry(last, wanted{role: a.cfg.Role, name: a.cfg.NodeName, domain: a.domain, parent: parent, seen: a.selectors})
	if text != "" && time.Since(a.since) < agentLearns {
		text += " (not if the entry is there: an agent that has just started learns of it within seconds)"
	}
	return text
}

// ExplainHost is Explain for an agent that somebody else runs on this machine: what it sees is not known, what the swarm
// attestor would say is.
func ExplainHost(role identity.Role, name string) func(last error) string {
	return func(last error) string {
		if last == nil {
			return ""
		}
		return noEntry(last, wanted{role: role, name: name, hosted: true})
	}
}

// wanted is the identity that a process waits for.
type wanted struct {
	role   identity.Role
	name   string
	domain string // "": not known
	parent string // SPIFFE ID of the agent, "": not known
	seen   []string
	hosted bool
}

// noEntry is "" for errors that no registration entry mends.
func noEntry(last error, w wanted) string {
	text := last.Error()
	if !strings.Contains(text, "no identity issued") && !strings.Contains(text, "gives no SVID for") {
		return ""
	}
	selector := attestor.Selector(w.role)
	saw := "it saw the selectors " + strings.Join(w.seen, ", ")
	switch {
	case w.hosted:
		saw = "its attestor swarm, if it is configured (`swarmd spire-plugin config` prints the block), sees " + selector
		if own := attestor.Self(); len(own) == 0 {
			saw = "an attestor swarm would give this process no selector"
		}
	case w.seen == nil:
		saw = "it has not said which selectors it saw"
	case len(w.seen) == 0:
		saw = "it saw no selectors"
	}
	if !w.hosted && len(w.seen) > 0 && !strings.Contains(strings.Join(w.seen, " ")+" ", selector+" ") {
		for _, s := range w.seen {
			if strings.HasPrefix(s, "unix:uid:") {
				selector = s
			}
		}
	}
	domain := first(w.domain, "TRUST_DOMAIN")
	id := "spiffe://" + domain + "/swarm/" + node(w.role, w.name)
	parent := first(w.parent, "spiffe://"+domain+AgentPath(w.role, w.name))
	return fmt.Sprintf("the SPIRE agent has no entry for this process: %s; on the server's machine: %s", saw,
		shellQuote([]string{"spire-server", "entry", "create", "-parentID", parent, "-spiffeID", id, "-selector", selector}))
}
