// Package pairs says which nodes of a swarm have a connection with each other, of what each node tells of its own: bounded on its way, and as a
// table for people.
package pairs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/text"
)

// Bounds of what a node tells. All of a node's health has 16 KiB.
const (
	// MaxBytes bounds the message: some 130 connections that are not well.
	MaxBytes = 8 << 10
	maxLinks = 256
	maxName  = 128
	maxHost  = 300
	maxCause = 200
	// maxSeconds bounds how long ago something was: adding to it does not overflow.
	maxSeconds = 1 << 30
)

// Bound returns what a node tells of its connections within the bounds, fit to show; nil for nil. Those that do not stand come first, and are
// dropped last. It does not change its argument.
func Bound(in *swarmv1.NodeLinks) *swarmv1.NodeLinks {
	if in == nil {
		return nil
	}
	out := &swarmv1.NodeLinks{Contract: fit(in.GetContract(), maxName), Sn: fit(in.GetSn(), maxName), More: in.GetMore()}
	all := slices.Clone(in.GetLinks())
	slices.SortStableFunc(all, func(a, b *swarmv1.NodeLink) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.GetNode(), b.GetNode()))
	})
	size := proto.Size(out) + 8 // the count
	for i, l := range all {
		clean := &swarmv1.NodeLink{
			Node: fit(l.GetNode(), maxName), Linked: l.GetLinked(), Address: fit(l.GetAddress(), maxHost), Cause: fit(l.GetCause(), maxCause),
			Refused: l.GetRefused(), SinceSeconds: min(l.GetSinceSeconds(), maxSeconds), LastSeconds: min(l.GetLastSeconds(), maxSeconds),
		}
		if size += proto.Size(clean) + 4; i == maxLinks || size > MaxBytes {
			out.More = max(out.GetMore(), uint32(len(all)-i)) //nolint:gosec // a message's length
			break
		}
		out.Links = append(out.Links, clean)
	}
	return out
}

func fit(said string, most int) string { return text.Clip(text.Line(said), most) }

// rank orders connections by how much there is to do about them.
func rank(l *swarmv1.NodeLink) int {
	switch {
	case l.GetCause() != "" && !l.GetLinked() && !l.GetRefused():
		return 0
	case !l.GetLinked() && !l.GetRefused():
		return 1
	}
	return 2
}

// Aged returns what a node told so long ago as of now; nil for nil. It does not change its argument.
func Aged(in *swarmv1.NodeLinks, by time.Duration) *swarmv1.NodeLinks {
	if in == nil {
		return nil
	}
	out := proto.CloneOf(in)
	for _, l := range out.GetLinks() {
		if l.GetCause() != "" && !l.GetRefused() {
			l.SinceSeconds += wholeSeconds(by)
			l.LastSeconds += wholeSeconds(by)
		}
	}
	return out
}

// Forgotten reports whether a failure says nothing any more where a connection stands, over which no other is tried: a port that refused a while
// ago is, as a rule, that of a node which was restarted. A firewall that drops does not answer, and is remembered.
func Forgotten(f reach.Failure, now time.Time) bool {
	return f.Err != nil && f.Err.Cause == reach.CauseRefused && !f.Lately(now)
}

// Failed is a connection with a node to which a dial failed.
func Failed(node string, linked bool, f reach.Failure, now time.Time) *swarmv1.NodeLink {
	return &swarmv1.NodeLink{
		Node: node, Linked: linked, Address: f.Err.HostPort, Cause: f.Err.Cause,
		SinceSeconds: wholeSeconds(now.Sub(f.Since)), LastSeconds: wholeSeconds(now.Sub(f.At)),
	}
}

func wholeSeconds(d time.Duration) uint32 {
	return uint32(min(max(d, 0)/time.Second, maxSeconds)) //nolint:gosec // bounded
}

// shutOff reports whether nothing was there, or a firewall; what is not that was answered.
func shutOff(l *swarmv1.NodeLink) bool {
	return slices.Contains([]string{reach.CauseRefused, reach.CauseTimeout, reach.CauseUnreachable}, l.GetCause())
}

// says says why a connection could not be opened, as the end of a sentence that says who could not.
func says(l *swarmv1.NodeLink) string {
	at := l.GetAddress() + " (TCP)"
	switch l.GetCause() {
	case reach.CauseRefused:
		return at + ", which refuses connections"
	case reach.CauseTimeout:
		return at + ", which does not answer"
	case reach.CauseUnreachable:
		return at + ", to which there is no way from its host"
	case reach.CauseUnresolved:
		return at + ", as its host knows no address of that name"
	}
	return at + ": " + l.GetCause()
}

// maxWarnings bounds ShutPorts.
const maxWarnings = 4

// ShutPorts is what a node tells of ports of others that are shut before it, as lines for people who look at something else.
func ShutPorts(in *swarmv1.NodeLinks) []string {
	var out []string
	for _, l := range in.GetLinks() {
		if l.GetCause() == "" || l.GetRefused() {
			continue
		}
		if len(out) == maxWarnings {
			return append(out, "there are more such ports: swarmctl get health")
		}
		line := "cannot open " + says(l)
		if l.GetLinked() {
			line += "; a connection with " + l.GetNode() + " stands and carries both; when it breaks, one of the two has to dial"
		} else {
			line += ", and there is no connection with " + l.GetNode() + "; check: swarmctl identity check " + l.GetAddress()
		}
		out = append(out, line)
	}
	return out
}
