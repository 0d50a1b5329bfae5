package pairs

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxDrawn bounds the nodes of a matrix: its rows fit a terminal of 80 columns.
	maxDrawn = 12
	// maxListed bounds the pairs that are listed.
	maxListed = 40
)

// NotWell are the pairs that are not well, first those without a connection.
func (t *Table) NotWell() []Pair {
	order := []State{None, OneWay, Unknown, Refused}
	out := slices.DeleteFunc(slices.Clone(t.Pairs), func(p Pair) bool { return p.State == Well })
	slices.SortStableFunc(out, func(a, b Pair) int { return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)) })
	return out
}

// Print writes the table for people: a matrix if the swarm is small, and in words what is not well. A swarm whose nodes need nobody has none.
func (t *Table) Print(w io.Writer) error {
	if len(t.Pairs) == 0 {
		return nil
	}
	var b strings.Builder
	wanted, stand := 0, 0
	for _, p := range t.Pairs {
		if p.State != Refused {
			wanted++
		}
		if p.State == Well || p.State == OneWay {
			stand++
		}
	}
	fmt.Fprintf(&b, "\nconnections: %d of %d that nodes need stand\n", stand, wanted)
	t.draw(&b)
	t.list(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// list says in words what is not well, and of what is not known only how much it is.
func (t *Table) list(b *strings.Builder) {
	bad := t.NotWell()
	unknown := slices.DeleteFunc(slices.Clone(bad), func(p Pair) bool { return p.State != Unknown })
	bad = slices.DeleteFunc(bad, func(p Pair) bool { return p.State == Unknown })
	for _, p := range bad[:min(len(bad), maxListed)] {
		fmt.Fprintf(b, "%s: %s and %s\n", p.State, p.A, p.B)
		for _, line := range p.Details() {
			fmt.Fprintf(b, "  %s\n", line)
		}
		if remedy := p.Remedy(); remedy != "" {
			fmt.Fprintf(b, "  -> %s\n", remedy)
		}
	}
	if more := len(bad) - maxListed; more > 0 {
		fmt.Fprintf(b, "and %d more pairs: -o json has all\n", more)
	}
	if n := len(unknown); n > 0 {
		var names []string
		for _, p := range unknown[:min(n, maxNamed)] {
			names = append(names, p.A+" and "+p.B)
		}
		if n > maxNamed {
			names = append(names, fmt.Sprintf("%d more pairs", n-maxNamed))
		}
		fmt.Fprintf(b, "not known yet: %s\n", strings.Join(names, ", "))
	}
}

// Cells of the matrix: how the node of the row reaches that of the column.
const (
	cellWell    = "ok"
	cellTheirs  = "in"
	cellNone    = "NO"
	cellUnknown = "?"
	cellRefused = "x"
	cellNoNeed  = "."
)

// legend says what the cells mean.
func legend() [][2]string {
	return [][2]string{
		{cellWell, "it stands"},
		{cellTheirs, "it stands, but the row could not open another"},
		{cellNone, "none"},
		{cellUnknown, "not known yet"},
		{cellRefused, "refused"},
		{cellNoNeed, "not needed"},
	}
}

// draw draws the matrix of a small swarm.
func (t *Table) draw(b *strings.Builder) {
	var drawn []string
	wide := 0
	for _, n := range t.Nodes {
		if len(drawn) > maxDrawn {
			return
		}
		if slices.ContainsFunc(t.Pairs, func(p Pair) bool { return p.A == n.Name || p.B == n.Name }) {
			drawn = append(drawn, n.Name)
			wide = max(wide, utf8.RuneCountInString(n.Name))
		}
	}
	if len(drawn) > maxDrawn {
		return
	}
	used := map[string]bool{}
	fmt.Fprintf(b, "    %-*s", wide, "")
	for i := range drawn {
		fmt.Fprintf(b, "  %2d", i+1)
	}
	b.WriteString("\n")
	for i, from := range drawn {
		row := fmt.Sprintf("%2d  %-*s", i+1, wide, from)
		for j, to := range drawn {
			cell := ""
			if i != j {
				cell = t.cell(from, to)
			}
			used[cell] = true
			row += fmt.Sprintf("  %2s", cell)
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	var means []string
	for _, l := range legend() {
		if used[l[0]] {
			means = append(means, l[0]+" "+l[1])
		}
	}
	fmt.Fprintf(b, "    from the row to the column: %s\n", strings.Join(means, "; "))
}

func (t *Table) cell(from, to string) string {
	i := slices.IndexFunc(t.Pairs, func(p Pair) bool { return p.A == from && p.B == to || p.A == to && p.B == from })
	if i < 0 {
		return cellNoNeed
	}
	p := t.Pairs[i]
	says := p.AB
	if p.B == from {
		says = p.BA
	}
	switch {
	case p.State == Refused:
		return cellRefused
	case p.State == None:
		return cellNone
	case p.State == Unknown:
		return cellUnknown
	case says.GetCause() != "":
		return cellTheirs
	}
	return cellWell
}
