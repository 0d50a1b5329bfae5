package adsfile

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// fields are those of a map, whose names may be written as Oracle's API has them, or its libraries: shapeName or shape_name.
type fields struct {
	*yamlfile.Fields
	lines map[string]int // where each name stands
}

// fields reads a map with known fields; null is one without any. Others are ignored, and that is said, unless one of the known ones was probably meant.
func (r *reader) fields(v yamlfile.Value, known ...string) *fields {
	if v.Null() {
		v.Node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: v.Node.Line}
	}
	if v.Node.Kind != yaml.MappingNode {
		v.Fields(yamlfile.Broken, known...)
		return nil
	}
	named := map[string]string{}
	for _, name := range known {
		named[spelled(name)] = name
	}
	for other, name := range otherNames {
		if slices.Contains(known, name) {
			named[spelled(other)] = name
		}
	}
	whole := *v.Node
	whole.Content = nil
	lines := map[string]int{}
	entries := v.Entries()
	for i := 0; i+1 < len(entries) && i/2 <= yamlfile.MaxItems; i += 2 {
		k, x := entries[i], entries[i+1]
		name, is := named[spelled(k.Value)]
		if !is && k.Kind == yaml.ScalarNode && !mistyped(k.Value, known) {
			r.Find(yamlfile.Noted, k.Line, "%s is ignored: nothing here has it", under(v.Name, yamlfile.Excerpt(k.Value)))
			continue
		}
		key := *k
		if is && k.Kind == yaml.ScalarNode {
			key.Value = name
			lines[name] = k.Line
		}
		whole.Content = append(whole.Content, &key, x)
	}
	v.Node = &whole
	f := v.Fields(yamlfile.Broken, known...)
	if f == nil {
		return nil
	}
	return &fields{f, lines}
}

// mistyped reports whether a name is nearly one of the known ones. Oracle has many more, which are not.
func mistyped(name string, known []string) bool {
	near := suggest.Word(yamlfile.Excerpt(name), known)
	return near != "" && len(name) > 3 && suggest.Distance(spelled(name), spelled(near)) <= 2
}

// spelled is a name without what spellings differ in.
func spelled(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

func under(name, field string) string {
	if name == "" {
		return field
	}
	return name + "." + field
}

// given reports whether a field has a value.
func (f *fields) given(name string) bool { return f.Has(name) && !f.Get(name, 0).Null() }

// note says something of a field, in its line.
func (f *fields) note(name, format string, args ...any) {
	f.Of.Doc.Find(yamlfile.Noted, f.lines[name], f.title(name)+" "+format, args...)
}

// refuse says why a field can't be.
func (f *fields) refuse(name, format string, args ...any) {
	f.Of.Doc.Find(yamlfile.Broken, f.lines[name], f.title(name)+" "+format, args...)
}

// title is a field's name, in which nothing is formatted.
func (f *fields) title(name string) string {
	return strings.ReplaceAll(under(f.Of.Name, name), "%", "%%")
}

// ignore says of each field that has a value that it is ignored, and why.
func (f *fields) ignore(why string, names ...string) {
	for _, name := range names {
		if f.given(name) {
			f.note(name, "is ignored: %s", why)
		}
	}
}

// text is a scalar as it is written; of what is none that is said.
func text(v yamlfile.Value) string {
	return v.Text(yamlfile.Rule{Any: true, Null: true, Least: -1, Long: true, Free: true})
}

// lines is a text that may have several lines.
func lines(v yamlfile.Value) string {
	return v.Text(yamlfile.Rule{Any: true, Null: true, Least: -1, Long: true, Free: true, Lines: true})
}

// asPython is a text as ADS makes it of what YAML reads: a bare true is True there. What it writes in another way than it stands is said.
func asPython(v yamlfile.Value) string {
	s := lines(v)
	if v.Null() && v.Node.Value != "" {
		v.Find(yamlfile.Noted, "%s is empty: ADS makes None of what is not quoted", v.Name)
	}
	if v.Null() || v.Node.Kind != yaml.ScalarNode || v.Node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return s
	}
	switch bare := strings.ToLower(s); {
	case slices.Contains([]string{"true", "yes", "on"}, bare):
		s = "True"
	case slices.Contains([]string{"false", "no", "off"}, bare):
		s = "False"
	case otherNumber.MatchString(s):
		v.Find(yamlfile.Noted, "%s is %s, which ADS reads as a number and writes in its own way: quote it", v.Name, yamlfile.Excerpt(s))
		return s
	default:
		return s
	}
	v.Find(yamlfile.Noted, "%s is %s: ADS makes %s of what is not quoted", v.Name, yamlfile.Excerpt(lines(v)), s)
	return s
}

// otherNumber is a number that Python writes otherwise than it stands.
var otherNumber = regexp.MustCompile(`^[-+]?(0[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|[1-9][0-9]*_[0-9_]*|[0-9][0-9_]*\.([0-9]+0)?|\.[0-9_]+|[0-9][0-9_]*\.[0-9_]*[eE][-+][0-9]+|[1-9][0-9_]*(:[0-5]?[0-9])+)$|^\+[0-9.]+$`)

// commandWords are a list of texts, or one text that a shell divides.
func commandWords(v yamlfile.Value) []string {
	switch {
	case v.Null():
		return nil
	case v.Kind() == "a list":
		var all []string
		for _, item := range v.List() {
			all = append(all, asPython(item))
		}
		return checked(v, all)
	}
	return divided(v, lines(v))
}

// divided are the words of a text, as a shell divides it.
func divided(v yamlfile.Value, s string) []string {
	all, err := shellwords.Split(s)
	if err != nil {
		v.Find(yamlfile.Broken, "%s: %v", v.Name, err)
	}
	return checked(v, all)
}

// checked refuses words in which variables stand that nobody fills in.
func checked(v yamlfile.Value, all []string) []string {
	for _, w := range all {
		fillable(v, w)
	}
	return all
}

func fillable(v yamlfile.Value, s string) {
	if _, _, err := jobfile.Fill(s, func(string) (string, bool) { return "", true }); err != nil {
		v.Find(yamlfile.Broken, "%s is %q: %v", v.Name, yamlfile.Excerpt(s), err)
	}
}

// arguments are words of a cluster, or of the API, that Oracle joins with blanks and has divided again, so that one with blanks is several. Those of kind: job are
// quoted before, and stay as they are.
func arguments(v yamlfile.Value) (all []string) {
	if v.Kind() != "a list" {
		return commandWords(v)
	}
	for _, item := range v.List() {
		parts := divided(item, asPython(item))
		if len(parts) != 1 {
			item.Find(yamlfile.Noted, "%s is %d words, as ADS divides it: quote it once more if it is to be one", item.Name, len(parts))
		}
		all = append(all, parts...)
	}
	return all
}

// startOptions are words, several of which may stand in one item.
func startOptions(v yamlfile.Value) (all []string) {
	if v.Kind() != "a list" {
		return commandWords(v)
	}
	for _, item := range v.List() {
		all = append(all, divided(item, lines(item))...)
	}
	return all
}
