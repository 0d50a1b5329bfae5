// Package health judges whether a node is fit to take part, and tells it to whoever starts and watches the node: on a
// unix socket in the state directory, and to systemd.
//
// A node is healthy while its identity is valid and renewed on schedule (more than a third of the certificate's life is
// left), a raft leader has heard of it within the last minute, and, of an SN, its ledger is whole. The rule has no exception
// for certificates from files, which nobody renews by himself: a certificate that goes stale must never look healthy.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/identity"
)

// SeenWithin is for how long a sign of a raft leader counts.
const SeenWithin = time.Minute

// Facts is what a verdict rests on.
type Facts struct {
	// Identity is the state of the node's identity; without NotAfter there is none yet.
	Identity identity.Status
	// Awaits says in words what gives the identity, for as long as there is none; may be empty.
	Awaits string
	// LeaderSeen is when a raft leader last heard of the node, zero for never.
	LeaderSeen time.Time
	// Ledger says why the node's ledger is not whole; nil: it is, or the node keeps none.
	Ledger error
}

// Verdict is the judgement on a node at one moment.
type Verdict struct {
	Healthy bool
	// Reason says why it is not, in words; empty while it is.
	Reason string
	// Remedy says what to do about the reason; empty when the node may mend it alone.
	Remedy string
	// Until is when the identity ceases to be renewed on schedule unless a new one comes: at two thirds of the
	// certificate's life. Zero while the node is not healthy. A leader's silence is not foretold: its signs come every
	// few seconds, so a moment that is always a minute away would tell nobody anything.
	Until time.Time
}

// Judge decides whether a node is healthy now. Of several reasons against it the first is told, identity before leader,
// since without an identity no leader can hear of the node, and leader before ledger, which comes from other SNs.
func Judge(f Facts, now time.Time) Verdict {
	id := f.Identity
	switch {
	case id.NotAfter.IsZero():
		return Verdict{Reason: waits("it has no identity yet", f.Awaits), Remedy: idRemedy(id)}
	case now.Before(id.NotBefore):
		return Verdict{
			Reason: fmt.Sprintf("its certificate is not valid for another %s, until %s", Words(id.NotBefore.Sub(now)), stamp(id.NotBefore)),
			Remedy: "compare this machine's clock with that of the authority which issued it",
		}
	case !now.Before(id.NotAfter):
		return Verdict{Reason: because(fmt.Sprintf("its certificate expired %s ago, at %s", Words(now.Sub(id.NotAfter)), stamp(id.NotAfter)), id), Remedy: idRemedy(id)}
	case identity.RenewalOverdue(id.NotBefore, id.NotAfter, now):
		return Verdict{
			Reason: because(fmt.Sprintf("its certificate is not renewed on schedule: %s of %s are left, until %s",
				Words(id.NotAfter.Sub(now)), Words(id.NotAfter.Sub(id.NotBefore)), stamp(id.NotAfter)), id),
			Remedy: idRemedy(id),
		}
	case f.LeaderSeen.IsZero():
		return Verdict{Reason: "no raft leader has heard of it yet", Remedy: leaderRemedy}
	case now.Sub(f.LeaderSeen) > SeenWithin:
		return Verdict{Reason: fmt.Sprintf("no raft leader has heard of it for %s", Words(now.Sub(f.LeaderSeen))), Remedy: leaderRemedy}
	case f.Ledger != nil:
		return Verdict{Reason: "it shows its ledger to nobody and is made no voter: " + f.Ledger.Error(), Remedy: ledgerRemedy}
	}
	return Verdict{Healthy: true, Until: identity.RenewalDeadline(id.NotBefore, id.NotAfter)}
}

const leaderRemedy = "a majority of the SNs must run and reach each other, and this node must reach one of them"

const ledgerRemedy = "it mends itself when another SN runs whose ledger is whole (swarmctl get ledger) and this one reaches it"

const unhealthy = "unhealthy: "

// Text is the verdict in one line.
func (v Verdict) Text() string {
	switch {
	case v.Healthy:
		return "healthy until " + stamp(v.Until)
	case v.Remedy == "":
		return unhealthy + v.Reason
	}
	return unhealthy + v.Reason + "; " + v.Remedy
}

// Why is reason and remedy in one line, empty while the node is healthy.
func (v Verdict) Why() string {
	if v.Healthy {
		return ""
	}
	return strings.TrimPrefix(v.Text(), unhealthy)
}

// Warnings tells what will make a node unhealthy, or has done so, and can still be mended in time.
func Warnings(f Facts, now time.Time) []string {
	id := f.Identity
	out := slices.Clone(id.Warnings)
	if len(out) == 0 && id.NotAfter.After(now) && identity.RenewalOverdue(id.NotBefore, id.NotAfter, now) {
		out = append(out, "the certificate expires in "+Words(id.NotAfter.Sub(now)))
	}
	if id.Problem != "" {
		out = append(out, "nothing new comes from "+origin(id)+": "+id.Problem)
	}
	return out
}

func waits(text, what string) string {
	if what == "" {
		return text
	}
	return text + " and waits for one from " + what
}

// because adds what the source of the identity complains of.
func because(text string, id identity.Status) string {
	if id.Problem == "" {
		return text
	}
	return text + " (" + origin(id) + ": " + id.Problem + ")"
}

func origin(id identity.Status) string {
	if id.Origin == "" {
		return "the identity's source"
	}
	return id.Origin
}

// idRemedy differs by who renews: an agent does it alone, files are a person's business.
func idRemedy(id identity.Status) string {
	if id.Origin == "" || strings.HasPrefix(id.Origin, "Workload API") {
		return "check that the identity's agent or authority runs, reaches its server and still has an entry for this node"
	}
	return "put a new certificate in place of the old one: it is taken over without a restart"
}

// Words is a span of time in words, in the largest unit of which there are at least two.
func Words(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*u.unit {
			return fmt.Sprintf("%d %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d seconds", max(d, 0)/time.Second)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
