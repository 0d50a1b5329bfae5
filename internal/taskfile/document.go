package taskfile

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
	maxItems  = 1024    // of one list
	maxName   = 160     // bytes of the name of a variable
)

// document is a file while it is read.
type document struct {
	file    string
	found   []*Finding
	visited int
	tooMuch bool // more than maxVisits, which was said
}

// parse returns the file's only value, or nil with a finding.
func (d *document) parse(data []byte) *yaml.Node {
	marks := 0
	for _, c := range data {
		if strings.IndexByte(",[]{}:?-\n\r&*", c) >= 0 {
			marks++
		}
	}
	switch {
	case len(data) > MaxFile:
		d.find(broken, 1, "the file has %d bytes, at most %d are read", len(data), MaxFile)
		return nil
	case marks > maxMarks:
		d.find(broken, 1, "the file has more lists, maps and lines than a task or profile can need")
		return nil
	}
	if line := notUTF8(data); line > 0 {
		d.find(broken, line, "this is not UTF-8: save the file as UTF-8")
		return nil
	}
	root, err := onlyDocument(data)
	var second *secondDocument
	switch {
	case errors.Is(err, errNothing):
		d.find(broken, 1, "the file is empty")
		return nil
	case errors.As(err, &second):
		d.find(broken, second.line, "a second document begins: give each task a file of its own")
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
func (d *document) shallow(n *yaml.Node, depth int) bool {
	if depth > maxDepth {
		d.find(broken, n.Line, "more than %d values are nested here", maxDepth)
		return false
	}
	if n.Style&yaml.TaggedStyle != 0 && !slices.Contains(plainTags, n.ShortTag()) {
		d.find(broken, n.Line, "the tag %s is not supported: leave it out", n.Tag)
		return false
	}
	for _, c := range n.Content {
		if !d.shallow(c, depth+1) {
			return false
		}
	}
	return true
}

// value is a place in a file: a node, and what it is called in messages.
type value struct {
	d    *document
	n    *yaml.Node
	name string
}

// at returns the value of a node, aliases followed. It counts: no file makes more work than maxVisits.
func (d *document) at(n *yaml.Node, name string) value {
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
			d.find(broken, line, "aliases make this more than %d values: write them out", maxVisits)
		}
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: line}
	}
	return value{d, n, name}
}

func (v value) find(w weight, format string, args ...any) { v.d.find(w, v.n.Line, format, args...) }

func (v value) null() bool { return v.n.Kind == yaml.ScalarNode && v.n.ShortTag() == "!!null" }

// kind says what a value is, in words.
func (v value) kind() string {
	switch {
	case v.n.Kind == yaml.MappingNode:
		return "a map"
	case v.n.Kind == yaml.SequenceNode:
		return "a list"
	case v.null():
		return "null"
	}
	switch v.n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}

// list returns the values of a list, and an empty one for null. One value that is no list counts as a list of it.
func (v value) list() (all []value) {
	switch {
	case v.null():
		return nil
	case v.n.Kind != yaml.SequenceNode:
		v.find(odd, "%s is %s: write a list, with - before each item", v.name, v.kind())
		return []value{v}
	case len(v.n.Content) > maxItems:
		v.find(broken, "%s has %d items, at most %d are read", v.name, len(v.n.Content), maxItems)
		return nil
	}
	for i, c := range v.n.Content {
		all = append(all, v.d.at(c, fmt.Sprintf("%s[%d]", v.name, i)))
	}
	return all
}
