package taskfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Var is a variable of a container's environment, or a label.
type Var struct{ Name, Value string }

// pairs reads names with values: a list of maps with one key each, as the original has it, or a map, or a list of NAME=VALUE. The last of
// a name holds.
func pairs(v yamlfile.Value) []Var {
	p := &pairing{of: v}
	if v.Node.Kind == yaml.MappingNode {
		v.Find(yamlfile.Strict, "%s is a map: write a list with one name and value in each item", v.Name)
		p.take(v)
		return p.all
	}
	for _, item := range v.List() {
		name, val, isPair := strings.Cut(item.Node.Value, "=")
		switch {
		case p.full():
		case item.Node.Kind == yaml.MappingNode:
			if n := len(item.Entries()) / 2; n != 1 {
				item.Find(yamlfile.Strict, "%s has %d names: write each as an item of its own", item.Name, n)
			}
			p.take(item)
		case item.Null():
			item.Find(yamlfile.Odd, "%s is empty and left out", item.Name)
		case item.Node.Kind == yaml.ScalarNode && isPair:
			item.Find(yamlfile.Strict, "%s is text: write %s : %s", item.Name, yamlfile.Excerpt(name), yamlfile.Excerpt(val))
			p.add(item, name, yamlfile.Value{Doc: v.Doc, Node: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: val, Line: item.Node.Line}, Name: v.Name})
		default:
			item.Find(yamlfile.Broken, "%s is %s: write a name and a value, as A : b", item.Name, item.Kind())
		}
	}
	return p.all
}

const maxName = 160 // bytes of the name of a variable

// pairing is names with values while they are read.
type pairing struct {
	of  yamlfile.Value
	all []Var
}

func (p *pairing) full() bool { return len(p.all) > yamlfile.MaxItems }

// take adds the entries of a map.
func (p *pairing) take(m yamlfile.Value) {
	entries := m.Entries()
	for i := 0; i+1 < len(entries) && !p.full(); i += 2 {
		k := p.of.Doc.At(entries[i], p.of.Name)
		p.add(k, k.Node.Value, p.of.Doc.At(entries[i+1], p.of.Name))
	}
}

// add adds a name, which stands at k, with its value.
func (p *pairing) add(k yamlfile.Value, name string, x yamlfile.Value) {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == '=' || c == 0x7f }) {
		k.Find(yamlfile.Broken, "%s has the name %q: use one word without =", p.of.Name, yamlfile.Excerpt(name))
		return
	}
	x.Name = fmt.Sprintf("%s of %s", yamlfile.Excerpt(name), p.of.Name)
	v := Var{name, x.Text(yamlfile.Rule{Any: true, Null: true, Least: -1, Long: true, Lines: true, Free: true})}
	if i := slices.IndexFunc(p.all, func(q Var) bool { return q.Name == name }); i >= 0 {
		k.Find(yamlfile.Odd, "%s stands in %s twice: this one holds", yamlfile.Excerpt(name), p.of.Name)
		p.all = slices.Delete(p.all, i, i+1)
	}
	if p.all = append(p.all, v); p.full() {
		k.Find(yamlfile.Broken, "%s has more than %d names", p.of.Name, yamlfile.MaxItems)
	}
}
