package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Swarm is what swarmctl doctor finds. Its tags describe the JSON form.
type Swarm struct {
	OK    bool   `json:"ok" doc:"nothing has failed"`
	Nodes []Node `json:"nodes" doc:"by role and name"`
	Links []Link `json:"links" doc:"one for each direction between two nodes that merge or talk"`
	Rows  []Row  `json:"rows" doc:"what concerns no single node or link"`
}

// Node is one node of a swarm.
type Node struct {
	Name     string  `json:"name" doc:"the node's"`
	Role     string  `json:"role" doc:"sn or sl"`
	Version  string  `json:"version" doc:"that it runs; empty: it has not answered"`
	NotAfter *string `json:"svid_not_after" doc:"when its certificate expires; RFC 3339, UTC"`
	Status   Status  `json:"status" doc:"ok, warning, failed or skipped"`
	Detail   string  `json:"detail" doc:"what was found, in words"`
	Remedy   string  `json:"remedy" doc:"what to do about it; empty where nothing is to be done"`
}

// Link is one direction between two nodes.
type Link struct {
	From           string   `json:"from" doc:"node that dials"`
	To             string   `json:"to" doc:"node that is dialled"`
	Address        string   `json:"address" doc:"HOST:PORT that is dialled"`
	API            bool     `json:"api" doc:"it is an SN's API, else a port for other nodes"`
	Reached        bool     `json:"reached" doc:"a new connection succeeds"`
	RoundTripMS    *float64 `json:"round_trip_ms" doc:"there and back, in milliseconds; null: not known"`
	ClockMS        *float64 `json:"clock_ms" doc:"by how much the other clock is ahead, in milliseconds, of an API to half a second; null: not known"`
	BytesPerSecond *float64 `json:"bytes_per_second" doc:"measured in about a second; null: not measured"`
	Unmeasured     string   `json:"unmeasured" doc:"why it was not, in words"`
	Status         Status   `json:"status" doc:"ok, warning, failed or skipped"`
	Detail         string   `json:"detail" doc:"what is wrong, in words; empty where nothing is"`
	Remedy         string   `json:"remedy" doc:"what to do about it; empty where nothing is to be done"`
}

// Probed is what a probe says of a link. Durations of 0 are not known.
type Probed struct {
	Said       bool // the node has said something of it
	Problem    string
	RoundTrip  time.Duration
	ClockKnown bool
	Ahead      time.Duration
	Rate       int64
	Unmeasured string
}

// What the Problem of a link is that its node has not tried.
const (
	NotDialled = "not dialled" // with the reason, as its owner wishes it
	NotKnown   = "not dialled: the node's own SN does not show it there, with a registration that it has signed"
)

// Judge fills in what a probe says of a link, and judges it. over: nothing is added any more; answered: the node that dials has answered.
func (l *Link) Judge(p Probed, over, answered bool) {
	switch {
	case !p.Said && !over:
		l.Status, l.Detail = Skipped, "not yet"
		return
	case !p.Said && !answered:
		l.Status, l.Detail = Skipped, "not checked: "+l.From+" did not answer"
		return
	case !p.Said:
		l.Status, l.Detail, l.Remedy = Warning, "not checked in time", "run swarmctl doctor again in a minute"
		return
	case p.Problem == NotKnown:
		l.Status, l.Detail, l.Remedy = Warning, NotKnown, "run swarmctl doctor again in a minute; if it stays so, SNs differ in what they say of "+l.To+": swarmctl list nodes --sn SN shows it for each"
		return
	case strings.HasPrefix(p.Problem, NotDialled+": "):
		l.Status, l.Detail = Skipped, legible(p.Problem)
		return
	case p.Problem != "":
		l.Status, l.Detail = Failed, legible(p.Problem)
		l.Remedy = fmt.Sprintf("let TCP from the host of %s to %s (%s) through every firewall between the two; on the host of %s: swarmctl identity check %s says more", l.From, l.Address, l.To, l.From, l.Address)
		return
	}
	l.Reached, l.Status, l.Unmeasured = true, OK, legible(p.Unmeasured)
	if p.RoundTrip > 0 {
		l.RoundTripMS = ms(p.RoundTrip)
	}
	if p.Rate > 0 {
		rate := float64(p.Rate)
		l.BytesPerSecond = &rate
	}
	if p.ClockKnown {
		l.ClockMS = ms(p.Ahead)
		row := Clock(l.To, p.Ahead)
		if l.Status = row.Status; row.Status != OK {
			l.Detail, l.Remedy = strings.Replace(row.Detail, "this machine's", "that of "+l.From, 1), row.Remedy
		}
	}
}

func ms(d time.Duration) *float64 {
	v := float64(d.Microseconds()) / 1000
	return &v
}

// Settle judges what the nodes' versions say together, and whether all is well.
func (s *Swarm) Settle() {
	count := map[string]int{}
	most := ""
	for _, n := range s.Nodes {
		if n.Version == "" {
			continue
		}
		if count[n.Version]++; most == "" || count[n.Version] > count[most] {
			most = n.Version
		}
	}
	for i, n := range s.Nodes {
		if n.Status == OK && n.Version != "" && n.Version != most {
			s.Nodes[i].Status, s.Nodes[i].Detail = Warning, "it runs "+n.Version+", most run "+most
			s.Nodes[i].Remedy = "run the same release on all nodes"
		}
	}
	s.OK = !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Status == Failed }) &&
		!slices.ContainsFunc(s.Links, func(l Link) bool { return l.Status == Failed }) &&
		!slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Status == Failed })
}

// Print writes the swarm for people: nodes, links and rows, each with its remedy below it.
func (s *Swarm) Print(w io.Writer, colour bool) error {
	var b strings.Builder
	nodes := grid{{"", "NODE", "ROLE", "VERSION", "FOUND"}}
	for _, n := range s.Nodes {
		nodes = append(nodes, []string{string(n.Status), n.Name, n.Role, orDash(n.Version), n.Detail, n.Remedy})
	}
	nodes.write(&b, colour)
	if len(s.Links) > 0 {
		b.WriteString("\n")
		links := grid{{"", "FROM", "TO", "ADDRESS", "ROUND TRIP", "BANDWIDTH", "CLOCK", "FOUND"}}
		for _, l := range s.Links {
			found := l.Detail
			if found == "" && l.BytesPerSecond == nil {
				found = l.Unmeasured
			}
			links = append(links, []string{string(l.Status), l.From, l.To, l.Address, figure(l.RoundTripMS, "%.1f ms"), rate(l.BytesPerSecond), l.clock(), orDash(found), l.Remedy})
		}
		links.write(&b, colour)
	}
	if len(s.Rows) > 0 {
		b.WriteString("\n")
	}
	for _, r := range s.Rows {
		fmt.Fprintf(&b, "%s  %s  %s\n", r.Status.Word(colour), legible(r.Check), r.Detail)
		if r.Remedy != "" {
			fmt.Fprintf(&b, "      -> %s\n", r.Remedy)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l Link) clock() string {
	if l.API && l.ClockMS != nil { // known to half a second
		if *l.ClockMS > -1000 && *l.ClockMS < 1000 {
			return "within 1 s"
		}
		return fmt.Sprintf("%+.0f s", *l.ClockMS/1000)
	}
	return figure(l.ClockMS, "%+.1f ms")
}

func figure(v *float64, form string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(form, *v)
}

func rate(v *float64) string {
	if v == nil {
		return "-"
	}
	return Bytes(int64(*v)) + "/s"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// grid is a table: a header, then rows that begin with a status and end with a remedy, which is no column.
type grid [][]string

func (g grid) write(b *strings.Builder, colour bool) {
	columns := len(g[0])
	width := make([]int, columns)
	for _, row := range g {
		for i := 1; i < columns-1; i++ {
			width[i] = max(width[i], utf8.RuneCountInString(legible(row[i])))
		}
	}
	for i, row := range g {
		word := "    "
		if i > 0 {
			word = Status(row[0]).Word(colour)
		}
		line := word
		for j := 1; j < columns; j++ {
			line += fmt.Sprintf("  %-*s", width[j], legible(row[j]))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if len(row) > columns && row[columns] != "" {
			b.WriteString("      -> " + legible(row[columns]) + "\n")
		}
	}
}
