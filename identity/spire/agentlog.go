package spire

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire/attestor"
)

// agentLog passes the agent's log on, and keeps of it what tells why the agent does not get on. No word of a message is looked
// for: levels, and the fields error, pid and selectors, are all that counts.
type agentLog struct {
	agent *agentState
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
	if h.agent.heard(r.Message, r.Level, fields) {
		r.Level = min(r.Level, slog.LevelDebug)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// heard takes a line of the agent's log, and reports whether what it is about is said with a remedy elsewhere: why the agent is
// not up yet, and what the agent answered to this process.
func (a *agentState) heard(msg string, at slog.Level, fields map[string]string) (said bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, asked := argument(a.setup.cfg.Args, "logLevel") // whoever sets it wants to see the log as it is
	if fields["pid"] == strconv.Itoa(os.Getpid()) {
		if seen, ok := parseSelectors(fields["selectors"]); ok {
			a.selectors = seen
		}
		return !asked
	}
	if at < slog.LevelWarn {
		return false
	}
	a.complaint = first(fields["error"], msg)
	if !a.up && refusal(a.complaint) == codes.InvalidArgument { // the agent would try for a minute
		select {
		case a.refused <- struct{}{}:
		default:
		}
	}
	gaveUp := statusCode(a.complaint) == codes.Canceled // the agent itself, as it ends
	return (!a.up || gaveUp) && !asked
}

// maxSelectors bounds what is kept of the agent's log.
const maxSelectors = 64

// parseSelectors reads the selectors of a process as the agent logs them.
func parseSelectors(text string) (selectors []string, ok bool) {
	var parsed []struct{ Type, Value string }
	if json.Unmarshal([]byte(text), &parsed) != nil {
		return nil, false
	}
	selectors = []string{}
	for _, s := range parsed[:min(len(parsed), maxSelectors)] {
		selectors = append(selectors, s.Type+":"+s.Value)
	}
	return selectors, true
}

// explain says why this process gets no identity from the agent, with the command that would help. last is the Workload
// API's last answer.
func (a *agentState) explain(last error) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.up && a.problem != "" {
		return "the SPIRE agent is down: " + a.problem
	}
	if last == nil {
		return ""
	}
	parent := readSaved(a.setup.dataDir).id()
	if a.alias != "" && a.domain != "" {
		parent = "spiffe://" + a.domain + a.alias
	}
	text := noEntry(last, wanted{role: a.setup.cfg.Role, name: a.setup.cfg.NodeName, domain: a.domain, parent: parent, seen: a.selectors})
	if text != "" && time.Since(a.since) < agentLearns {
		text += " (not if the entry is there: an agent that has just started learns of it within seconds)"
	}
	return text
}

// ExplainHost is Explain for an agent that somebody else runs on this machine: what it sees is not known, what the swarm
// attestor would say is.
func ExplainHost(role identity.Role, name string) func(last error) string {
	return func(last error) string {
		if last == nil || identity.OtherPrefix(last) {
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
	domain := first(w.domain, domainIn(text), "TRUST_DOMAIN")
	id := "spiffe://" + domain + "/swarm/" + node(w.role, w.name)
	parent := first(w.parent, "spiffe://"+domain+AgentPath(w.role, w.name))
	return fmt.Sprintf("the SPIRE agent has no entry for this process: %s; on the server's machine: %s", saw,
		shellQuote([]string{"spire-server", "entry", "create", "-parentID", parent, "-spiffeID", id, "-selector", selector}))
}

// idDomain matches the trust domain of a SPIFFE ID.
var idDomain = regexp.MustCompile(`spiffe://([a-z0-9._-]+)/`)

// domainIn is the trust domain of the SPIFFE IDs that an answer names, "" without any: an agent that has identities for this process,
// but not this one, shows which domain it belongs to.
func domainIn(answer string) string {
	if found := idDomain.FindStringSubmatch(answer); found != nil {
		return found[1]
	}
	return ""
}
