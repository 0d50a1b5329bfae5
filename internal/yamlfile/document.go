package yamlfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file, and of what is read of it.
const (
	MaxFile = 1 << 20 // bytes

	maxMarks  = 1 << 16 // characters that may begin a value, each of which costs far more memory than a byte
	maxVisits = 1 << 16 // values that are read; through aliases these may be more than the file has
	maxDepth  = 32      // values within values
	maxText   = 4096    // bytes of one value
	MaxItems  = 1024    // of one list
)

// Document is a file while it is read.
type Document struct {
	File string
	// Once: a field that stands twice can't be read. Otherwise the last one holds.
	Once bool

	found   []*Finding
	missed  int // findings that are not kept
	visited int
	tooMuch bool // more than maxVisits, which was said
}

// Parse returns the file's only value, or nil with a finding.
func (d *Document) Parse(data []byte) *yaml.Node {
	marks := 0
	for _, c := range data {
		if strings.IndexByte(",[]{}:?-\n\r&*", c) >= 0 {
			marks++
		}
	}
	switch {
	case len(data) > MaxFile:
		d.Find(Broken, 1, "the file has %d bytes, at most %d are read", len(data), MaxFile)
		return nil
	case marks > maxMarks:
		d.Find(Broken, 1, "the file has more lists, maps and lines than anything that is read needs")
		return nil
	}
	if line := notUTF8(data); line > 0 {
		d.Find(Broken, line, "this is not UTF-8: save the file as UTF-8")
		return nil
	}
	root, err := onlyDocument(data)
	var second *secondDocument
	switch {
	case errors.Is(err, errNothing):
		d.Find(Broken, 1, "the file is empty")
		return nil
	case errors.As(err, &second):
		d.Find(Broken, second.line, "a second document begins: give each a file of its own")
		return nil
	case err != nil:
		d.notYAML(err, data)
		return nil
	}
	if !d.shallow(root.Content[0], 0) {
		return nil
	}
	return root.Content[0]
}

// plainTags are those of text, lists and maps.
var plainTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq"}

// shallow refuses what is nested deeper than anything that is read, and what needs more than text, lists and maps.
func (d *Document) shallow(n *yaml.Node, depth int) bool {
	if depth > maxDepth {
		d.Find(Broken, n.Line, "more than %d values are nested here", maxDepth)
		return false
	}
	if n.Style&yaml.TaggedStyle != 0 && !slices.Contains(plainTags, n.ShortTag()) {
		d.Find(Broken, n.Line, "the tag %s is not supported: leave it out", n.Tag)
		return false
	}
	for _, c := range n.Content {
		if !d.shallow(c, depth+1) {
			return false
		}
	}
	return true
}

// Value is a place in a file: a node, and what it is called in messages.
type Value struct {
	Doc  *Document
	Node *yaml.Node
	Name string
}

// At returns the value of a node, aliases followed. It counts: no file makes more work than maxVisits.
func (d *Document) At(n *yaml.Node, name string) Value {
	d.visited++
	line := n.Line
	for range maxDepth {
		if n.Kind != yaml.AliasNode {
			break
		}
		n = n.Alias
	}
	if d.visited > maxVisits || n.Kind == yaml.AliasNode {
		if !d.tooMuch {
			d.tooMuch = true
			d.Find(Broken, line, "aliases make this more than %d values: write them out", maxVisits)
		}
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: line}
	}
	return Value{d, n, name}
}

// Find says something of where a value stands.
func (v Value) Find(w Weight, format string, args ...any) {
	v.Doc.Find(w, v.Node.Line, format, args...)
}

// Null reports whether a value is null, or nothing.
func (v Value) Null() bool { return v.Node.Kind == yaml.ScalarNode && v.Node.ShortTag() == "!!null" }

// Kind says what a value is, in words.
func (v Value) Kind() string {
	switch {
	case v.Node.Kind == yaml.MappingNode:
		return "a map"
	case v.Node.Kind == yaml.SequenceNode:
		return "a list"
	case v.Null():
		return "null"
	}
	switch v.Node.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}

// List returns the values of a list, and an empty one for null. One value that is no list counts as a list of it.
func (v Value) List() (all []Value) {
	switch {
	case v.Null():
		return nil
	case v.Node.Kind != yaml.SequenceNode:
		v.Find(Odd, "%s is %s: write a list, with - before each item", v.Name, v.Kind())
		return []Value{v}
	case len(v.Node.Content) > MaxItems:
		v.Find(Broken, "%s has %d items, at most %d are read", v.Name, len(v.Node.Content), MaxItems)
		return nil
	}
	for i, c := range v.Node.Content {
		all = append(all, v.Doc.At(c, fmt.Sprintf("%s[%d]", v.Name, i)))
	}
	return all
}
