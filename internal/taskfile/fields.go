package taskfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/suggest"
)

// fields are those of a map. Which are known stands first, so that others can be named.
type fields struct {
	of     value
	known  []string
	values map[string]value
	near   []string // known ones for which unknown ones were probably meant
}

// fields reads a map with known fields. stranger is who minds others. It is nil, with a finding, for what is no map.
func (v value) fields(stranger weight, known ...string) *fields {
	if v.n.Kind != yaml.MappingNode {
		v.find(broken, "%s is %s: write its fields, one a line: %s", v.title(), v.kind(), strings.Join(known, ", "))
		return nil
	}
	entries := v.entries()
	if len(entries)/2 > maxItems {
		v.find(broken, "%s has %d fields, at most %d are read", v.title(), len(entries)/2, maxItems)
		return nil
	}
	f := &fields{of: v, known: known, values: map[string]value{}}
	lines := map[string]int{}
	for i := 0; i+1 < len(entries); i += 2 {
		k, x := v.d.at(entries[i], v.title()), entries[i+1]
		if k.n.Kind != yaml.ScalarNode {
			k.find(broken, "a field's name is %s: write text", k.kind())
			continue
		}
		name := k.n.Value
		if !slices.Contains(known, name) {
			f.near = append(f.near, suggest.Word(clip(name), known))
			k.find(stranger, "unknown field %s%s%s", clip(name), within(v.name), meant(name, known))
			continue
		}
		if before := lines[name]; before > 0 {
			v.d.find(odd, entries[i].Line, "%s stands in line %d too: this one holds", name, before)
		}
		lines[name] = entries[i].Line
		f.values[name] = v.d.at(x, under(v.name, name))
	}
	return f
}

func (v value) title() string {
	if v.name == "" {
		return "the file"
	}
	return v.name
}

func under(name, field string) string {
	if name == "" {
		return field
	}
	return name + "." + field
}

func within(name string) string {
	if name == "" {
		return ""
	}
	return " in " + name
}

// get returns a field. One that is missing is null, in the map's line, with a finding of the given weight; 0: nobody minds.
func (f *fields) get(name string, missing weight) value {
	if v, ok := f.values[name]; ok {
		return v
	}
	switch {
	case missing == 0 || slices.Contains(f.near, name): // or that was said
	case missing == odd:
		f.of.find(odd, "%s is missing and taken as null: the original wants it written", under(f.of.name, name))
	default:
		f.of.find(missing, "%s is missing", under(f.of.name, name))
	}
	return value{f.of.d, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: f.of.n.Line}, under(f.of.name, name)}
}

func (f *fields) has(name string) bool { _, ok := f.values[name]; return ok }

// want returns a text that must be there.
func (f *fields) want(name string, r rule) string {
	v := f.get(name, broken)
	switch {
	case !f.has(name):
		return ""
	case v.n.Kind == yaml.ScalarNode && (v.null() || v.n.Value == ""):
		v.find(broken, "%s is empty: write text", v.name)
		return ""
	}
	return v.text(r)
}

// may returns a text that may be null.
func (f *fields) may(name string, r rule) string {
	r.null = true
	missing := odd
	if r.optional {
		missing = 0
	}
	return f.get(name, missing).text(r)
}
