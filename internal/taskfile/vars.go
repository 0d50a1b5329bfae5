package taskfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Var is a variable of a container's environment, or a label.
type Var struct{ Name, Value string }

// pairs reads names with values: a list of maps with one key each, as the original has it, or a map, or a list of NAME=VALUE. The last of
// a name holds.
func (v value) pairs() []Var {
	p := &pairs{of: v}
	if v.n.Kind == yaml.MappingNode {
		v.find(strict, "%s is a map: write a list with one name and value in each item", v.name)
		p.take(v)
		return p.all
	}
	for _, item := range v.list() {
		name, val, isPair := strings.Cut(item.n.Value, "=")
		switch {
		case p.full():
		case item.n.Kind == yaml.MappingNode:
			if n := len(item.entries()) / 2; n != 1 {
				item.find(strict, "%s has %d names: write each as an item of its own", item.name, n)
			}
			p.take(item)
		case item.null():
			item.find(odd, "%s is empty and left out", item.name)
		case item.n.Kind == yaml.ScalarNode && isPair:
			item.find(strict, "%s is text: write %s : %s", item.name, clip(name), clip(val))
			p.add(item, name, value{v.d, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: val, Line: item.n.Line}, v.name})
		default:
			item.find(broken, "%s is %s: write a name and a value, as A : b", item.name, item.kind())
		}
	}
	return p.all
}

// pairs are names with values while they are read.
type pairs struct {
	of  value
	all []Var
}

func (p *pairs) full() bool { return len(p.all) > maxItems }

// take adds the entries of a map.
func (p *pairs) take(m value) {
	entries := m.entries()
	for i := 0; i+1 < len(entries) && !p.full(); i += 2 {
		k := p.of.d.at(entries[i], p.of.name)
		p.add(k, k.n.Value, p.of.d.at(entries[i+1], p.of.name))
	}
}

// add adds a name, which stands at k, with its value.
func (p *pairs) add(k value, name string, x value) {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == '=' || c == 0x7f }) {
		k.find(broken, "%s has the name %q: use one word without =", p.of.name, clip(name))
		return
	}
	x.name = fmt.Sprintf("%s of %s", clip(name), p.of.name)
	v := Var{name, x.text(rule{any: true, null: true, least: -1, long: true, lines: true, free: true})}
	if i := slices.IndexFunc(p.all, func(q Var) bool { return q.Name == name }); i >= 0 {
		k.find(odd, "%s stands in %s twice: this one holds", clip(name), p.of.name)
		p.all = slices.Delete(p.all, i, i+1)
	}
	if p.all = append(p.all, v); p.full() {
		k.find(broken, "%s has more than %d names", p.of.name, maxItems)
	}
}
