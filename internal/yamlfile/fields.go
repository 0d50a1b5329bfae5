package yamlfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/suggest"
)

// Fields are those of a map. Which are known stands first, so that others can be named.
type Fields struct {
	Of     Value
	known  []string
	values map[string]Value
	near   []string // known ones for which unknown ones were probably meant
}

// Fields reads a map with known fields. stranger is who minds others. It is nil, with a finding, for what is no map.
func (v Value) Fields(stranger Weight, known ...string) *Fields {
	if v.Node.Kind != yaml.MappingNode {
		v.Find(Broken, "%s is %s: write its fields, one a line: %s", v.title(), v.Kind(), strings.Join(known, ", "))
		return nil
	}
	entries := v.Entries()
	if len(entries)/2 > MaxItems {
		v.Find(Broken, "%s has %d fields, at most %d are read", v.title(), len(entries)/2, MaxItems)
		return nil
	}
	f := &Fields{Of: v, known: known, values: map[string]Value{}}
	lines := map[string]int{}
	for i := 0; i+1 < len(entries); i += 2 {
		k, x := v.Doc.At(entries[i], v.title()), entries[i+1]
		if k.Node.Kind != yaml.ScalarNode {
			k.Find(Broken, "a field's name is %s: write text", k.Kind())
			continue
		}
		name := k.Node.Value
		if !slices.Contains(known, name) {
			f.near = append(f.near, suggest.Word(Excerpt(name), known))
			k.Find(stranger, "unknown field %s%s%s", Excerpt(name), within(v.Name), Meant(name, known))
			continue
		}
		switch before := lines[name]; {
		case before == 0:
		case v.Doc.Once:
			v.Doc.Find(Broken, entries[i].Line, "%s stands in line %d too: write it once", name, before)
		default:
			v.Doc.Find(Odd, entries[i].Line, "%s stands in line %d too: this one holds", name, before)
		}
		lines[name] = entries[i].Line
		f.values[name] = v.Doc.At(x, under(v.Name, name))
	}
	return f
}

func (v Value) title() string {
	if v.Name == "" {
		return "the file"
	}
	return v.Name
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

// Get returns a field. One that is missing is null, in the map's line, with a finding of the given weight; 0: nobody minds.
func (f *Fields) Get(name string, missing Weight) Value {
	if v, ok := f.values[name]; ok {
		return v
	}
	switch {
	case missing == 0 || f.Meant(name): // or that was said
	case missing == Odd:
		f.Of.Find(Odd, "%s is missing and taken as null: the original wants it written", under(f.Of.Name, name))
	default:
		f.Of.Find(missing, "%s is missing", under(f.Of.Name, name))
	}
	return Value{f.Of.Doc, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: f.Of.Node.Line}, under(f.Of.Name, name)}
}

// Meant reports whether an unknown field stands there that probably was to be this one, which was said.
func (f *Fields) Meant(name string) bool { return slices.Contains(f.near, name) }

// Has reports whether a field stands there.
func (f *Fields) Has(name string) bool { _, ok := f.values[name]; return ok }

// Want returns a text that must be there.
func (f *Fields) Want(name string, r Rule) string {
	v := f.Get(name, Broken)
	switch {
	case !f.Has(name):
		return ""
	case v.Node.Kind == yaml.ScalarNode && (v.Null() || v.Node.Value == ""):
		v.Find(Broken, "%s is empty: write text", v.Name)
		return ""
	}
	return v.Text(r)
}

// May returns a text that may be null.
func (f *Fields) May(name string, r Rule) string {
	r.Null = true
	missing := Odd
	if r.Optional {
		missing = 0
	}
	return f.Get(name, missing).Text(r)
}
