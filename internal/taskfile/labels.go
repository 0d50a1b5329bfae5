package taskfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

// labels are pairs, of which a map is as good as a list. In a list a name may stand alone, as for Docker: its label is empty.
func labels(v yamlfile.Value) []Var {
	if v.Node.Kind == yaml.MappingNode {
		v.Node = &yaml.Node{Kind: yaml.SequenceNode, Line: v.Node.Line, Content: alone(v.Entries())}
	}
	if v.Node.Kind == yaml.SequenceNode {
		list := *v.Node
		list.Content = slices.Clone(list.Content)
		for i, item := range list.Content {
			if item.Kind == yaml.ScalarNode && item.ShortTag() != "!!null" && !strings.Contains(item.Value, "=") {
				list.Content[i] = labelled(item)
			}
		}
		v.Node = &list
	}
	return pairs(v)
}

// labelled is a label that is only a name, written as a map with an empty value.
func labelled(name *yaml.Node) *yaml.Node {
	empty := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Line: name.Line}
	return &yaml.Node{Kind: yaml.MappingNode, Line: name.Line, Content: []*yaml.Node{name, empty}}
}

// alone are the entries of a map, each as a map of its own.
func alone(entries []*yaml.Node) (all []*yaml.Node) {
	for i := 0; i+1 < len(entries); i += 2 {
		all = append(all, &yaml.Node{Kind: yaml.MappingNode, Line: entries[i].Line, Content: entries[i : i+2]})
	}
	return all
}
