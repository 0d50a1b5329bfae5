package yamlfile

import "go.yaml.in/yaml/v3"

// Entries are the names and values of a map, in turn: its own, then those that << takes from other maps, unless the map has them itself. Of
// several such maps the first one holds.
func (v Value) Entries() []*yaml.Node {
	m := &merging{d: v.Doc, has: map[string]bool{}}
	m.take(v.Node, false)
	for len(m.from) > 0 && !v.Doc.tooMuch {
		next := m.from[0]
		m.from = m.from[1:]
		m.merge(next)
	}
	return m.all
}

// merging are the entries of a map while they are collected.
type merging struct {
	d    *Document
	all  []*yaml.Node
	has  map[string]bool
	from []Value // maps that are still to be merged, or lists of them
}

// take adds the entries of a map. Where it is another one's, names that are there already are left out.
func (m *merging) take(n *yaml.Node, other bool) {
	m.d.visited += len(n.Content) / 2
	var from []Value
	names := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, x := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.Tag == "!!merge" {
			from = append(from, m.d.At(x, "<<"))
			continue
		}
		if other && m.has[k.Value] {
			continue
		}
		names[k.Value] = true
		m.all = append(m.all, k, x)
	}
	for name := range names {
		m.has[name] = true
	}
	m.from = append(from, m.from...)
}

// merge adds what a << names.
func (m *merging) merge(v Value) {
	switch {
	case v.Node.Kind == yaml.MappingNode:
		m.take(v.Node, true)
	case v.Node.Kind == yaml.SequenceNode:
		items := v.List()
		m.from = append(items, m.from...)
	case !v.Null():
		v.Find(Broken, "<< is %s: name a map, as <<: *NAME", v.Kind())
	}
}
