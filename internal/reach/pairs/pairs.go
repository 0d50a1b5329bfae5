package pairs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/health"
)

// Node is a node that is there, and what it tells of its connections.
type Node struct {
	Name, Role string
	Links      *swarmv1.NodeLinks // nil: nothing is known
}

// State is how it is between two nodes.
type State string

// States of pairs.
const (
	Well    State = "well"      // a connection stands, and no dial is known to have failed
	OneWay  State = "one way"   // a connection stands, whoever has opened it, though one of the two, or both, could not open another
	None    State = "none"      // no connection, and a dial has failed
	Unknown State = "not known" // no connection that is known of, and none was tried
	Refused State = "refused"   // one of the two takes no part with the other, for its owner or its own judgement
)

// Pair is how it is between two nodes that need each other: SLs of one contract, an SL and the SN that it uses or could not reach, and SNs.
type Pair struct {
	A, B  string
	State State
	// AB is what is not well on the way from A to B in A's words, BA the reverse; nil: nothing.
	AB, BA *swarmv1.NodeLink
}

// Table is who has a connection with whom.
type Table struct {
	Nodes []Node
	Pairs []Pair // of all that need each other, in the order of the nodes

	counts map[string]Count // by node name
}

// Tabulate makes the table of the nodes that are there: those that are gone, and so need nobody, are left out by the caller.
func Tabulate(nodes []Node) *Table {
	t := &Table{Nodes: nodes, counts: map[string]Count{}}
	said := make([]map[string]*swarmv1.NodeLink, len(nodes))
	for i, n := range nodes {
		said[i] = map[string]*swarmv1.NodeLink{}
		for _, l := range n.Links.GetLinks() {
			said[i][l.GetNode()] = l
		}
	}
	for i, a := range nodes {
		for j, b := range nodes[i+1:] {
			p := Pair{A: a.Name, B: b.Name, AB: said[i][b.Name], BA: said[i+1+j][a.Name]}
			if p.State = p.judge(a, b); p.State != "" {
				t.Pairs = append(t.Pairs, p)
				t.count(p.A, p.B, p.State)
				t.count(p.B, p.A, p.State)
			}
		}
	}
	return t
}

// count counts a pair for one of the two.
func (t *Table) count(name, other string, s State) {
	c := t.counts[name]
	switch s {
	case Refused:
		return
	case None:
		c.Apart = append(c.Apart, other)
	case Unknown:
		c.Unknown++
	default:
		c.Has++
	}
	c.Needs++
	t.counts[name] = c
}

// judge returns the state of a pair; empty: the two do not need each other.
func (p *Pair) judge(a, b Node) State {
	switch {
	case a.Role == naming.RoleSL && b.Role == naming.RoleSL:
		c := a.Links.GetContract()
		if (c == "" || c != b.Links.GetContract()) && (p.AB == nil || b.Links != nil) && (p.BA == nil || a.Links != nil) {
			return ""
		}
		return p.between(a, b)
	case a.Role == naming.RoleSN && b.Role == naming.RoleSN:
		if s := p.between(a, b); s != Unknown {
			return s
		}
		return "" // followers need no connection until one of them is to lead
	case a.Role == naming.RoleSL && b.Role == naming.RoleSN:
		return withSN(a, b, p.AB)
	case a.Role == naming.RoleSN && b.Role == naming.RoleSL:
		return withSN(b, a, p.BA)
	}
	return ""
}

// withSN judges an SL's way to an SN: it needs one of them, and what it uses stands.
func withSN(sl, sn Node, says *swarmv1.NodeLink) State {
	switch {
	case sl.Links.GetSn() == sn.Name:
		return Well
	case says.GetCause() != "":
		return None
	}
	return ""
}

// between judges what both say. Who says that there is no connection is believed before who says nothing of it.
func (p *Pair) between(a, b Node) State {
	both := []*swarmv1.NodeLink{p.AB, p.BA}
	either := func(is func(l *swarmv1.NodeLink) bool) bool {
		return slices.ContainsFunc(both, func(l *swarmv1.NodeLink) bool { return l != nil && is(l) })
	}
	apart := either(func(l *swarmv1.NodeLink) bool { return !l.GetLinked() })
	tells := func(n Node, l *swarmv1.NodeLink) bool { return n.Links != nil && (l != nil || n.Links.GetMore() == 0) }
	switch {
	case either((*swarmv1.NodeLink).GetRefused):
		return Refused
	case apart && either(func(l *swarmv1.NodeLink) bool { return l.GetCause() != "" }):
		return None
	case apart, !tells(a, p.AB) && !tells(b, p.BA):
		return Unknown
	case either(func(l *swarmv1.NodeLink) bool { return l.GetCause() != "" }):
		return OneWay
	}
	return Well
}

// Count is how many others a node needs, and how it is with them.
type Count struct {
	Needs, Has int
	Apart      []string // with whom it has no connection though a dial was tried
	Unknown    int
}

// Count is how many others a node needs.
func (t *Table) Count(name string) Count { return t.counts[name] }

// maxNamed bounds the names in a cell of a table.
const maxNamed = 3

// String is the count as a cell: "7/7", "6/7 (not hospital-b)".
func (c Count) String() string {
	if c.Needs == 0 {
		return ""
	}
	out := fmt.Sprintf("%d/%d", c.Has, c.Needs)
	var notes []string
	if n := len(c.Apart); n > 0 {
		not := "not " + strings.Join(c.Apart[:min(n, maxNamed)], ", ")
		if n > maxNamed {
			not += fmt.Sprintf(" and %d more", n-maxNamed)
		}
		notes = append(notes, not)
	}
	if c.Unknown > 0 {
		notes = append(notes, fmt.Sprintf("%d not known yet", c.Unknown))
	}
	if len(notes) > 0 {
		out += " (" + strings.Join(notes, "; ") + ")"
	}
	return out
}

// Linked says in few words which pairs are well: each two nodes of a group are, unless NotWell has them. The SLs of a contract are one group.
func (t *Table) Linked() [][]string {
	var out [][]string
	peers, in := map[string][]string{}, map[string]string{} // by contract; its contract by name
	for _, n := range t.Nodes {
		if c := n.Links.GetContract(); n.Role == naming.RoleSL && c != "" {
			peers[c], in[n.Name] = append(peers[c], n.Name), c
		}
	}
	for _, c := range slices.Sorted(maps.Keys(peers)) {
		if len(peers[c]) > 1 {
			out = append(out, peers[c])
		}
	}
	for _, p := range t.Pairs {
		if c := in[p.A]; p.State == Well && (c == "" || c != in[p.B]) {
			out = append(out, []string{p.A, p.B})
		}
	}
	return out
}

// Details says in words what is not well between the two, nothing if all is.
func (p Pair) Details() []string {
	var parts []string
	for _, way := range []struct {
		from, to string
		l        *swarmv1.NodeLink
	}{{p.A, p.B, p.AB}, {p.B, p.A, p.BA}} {
		switch {
		case way.l == nil:
		case way.l.GetRefused():
			parts = append(parts, fmt.Sprintf("%s takes no part with %s: %s", way.from, way.to, way.l.GetCause()))
		case way.l.GetCause() == "" && p.State == None:
			parts = append(parts, fmt.Sprintf("%s has not tried yet", way.from))
		case way.l.GetCause() == "":
			parts = append(parts, fmt.Sprintf("%s has no connection with %s yet", way.from, way.to))
		case p.State == OneWay:
			parts = append(parts, fmt.Sprintf("%s could not open %s (%s)", way.from, says(way.l), tries(way.l)))
		default:
			parts = append(parts, fmt.Sprintf("%s cannot open %s, for %s", way.from, says(way.l), words(way.l.GetSinceSeconds())))
		}
	}
	if p.State == OneWay {
		parts = append(parts, "a connection stands and carries both")
	}
	if p.State == Unknown && len(parts) == 0 {
		parts = append(parts, "neither of "+p.A+" and "+p.B+" tells of it")
	}
	return parts
}

// tries says since when a dial fails that is not tried again while a connection stands.
func tries(l *swarmv1.NodeLink) string {
	first, last := words(l.GetSinceSeconds()), words(l.GetLastSeconds())
	if l.GetSinceSeconds() <= l.GetLastSeconds() || first == last {
		return "its last try was " + last + " ago"
	}
	return "its first try was " + first + " ago, its last " + last + " ago"
}

// Dials is who of a pair is not known to have failed to dial where the other has, else empty. It may never have tried: nobody tells who opened the
// connection that stands.
func (p Pair) Dials() string {
	switch {
	case p.State != OneWay:
	case p.AB.GetCause() == "":
		return p.A
	case p.BA.GetCause() == "":
		return p.B
	}
	return ""
}

// Remedy is what to do; empty: nothing has to be done.
func (p Pair) Remedy() string {
	if p.State != None && p.State != OneWay {
		return ""
	}
	from, l := p.A, p.AB
	if l.GetCause() == "" {
		from, l = p.B, p.BA
	}
	check := fmt.Sprintf("check on the host of %s: swarmctl identity check %s", from, l.GetAddress())
	if p.State == OneWay {
		return p.later(l) + "; " + check
	}
	if !shutOff(l) {
		return check
	}
	to := p.A
	if from == p.A {
		to = p.B
	}
	open := fmt.Sprintf("let TCP from the host of %s to %s (%s) through every firewall", from, l.GetAddress(), to)
	if other := p.other(l); shutOff(other) {
		open += fmt.Sprintf(", or the other way to %s; one of the two is enough", other.GetAddress())
	}
	return open + "; " + check
}

// later is what to do before the connection breaks that stands, of which l is a failure to open another.
func (p Pair) later(l *swarmv1.NodeLink) string {
	out, to := "when the connection breaks, the pair needs one side that can dial", p.A
	if l == p.AB {
		to = p.B
	}
	if dials := p.Dials(); dials != "" {
		out += ", and whether " + dials + " can is not known"
	}
	if shutOff(l) {
		out += fmt.Sprintf(": open %s (TCP) inbound at %s", l.GetAddress(), to)
	}
	return out
}

func (p Pair) other(l *swarmv1.NodeLink) *swarmv1.NodeLink {
	if l == p.AB {
		return p.BA
	}
	return p.AB
}

// words says how long something is.
func words(seconds uint32) string { return health.Words(time.Duration(seconds) * time.Second) }
