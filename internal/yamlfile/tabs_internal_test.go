package yamlfile

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// valuesOf are the texts of a file, in order.
func valuesOf(n *yaml.Node) (all []string) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	for _, c := range n.Content {
		all = append(all, valuesOf(c)...)
	}
	return all
}

// TestTabs: tabs that mean nothing are no error, and in a text each counts, also if the file has others of the first kind.
func TestTabs(t *testing.T) {
	for file, want := range map[string][]string{
		"a: 1\n\t\nb: 2\n":                               {"a", "1", "b", "2"},
		"\t\na: 1\n":                                     {"a", "1"},
		"a: 1\n\t":                                       {"a", "1"},
		"a: 1\r\n\t\r\nb: 2\r\n":                         {"a", "1", "b", "2"},
		"a:\n  - x\n\t\n  - y\n":                         {"a", "x", "y"},
		"a:\n  - x\n  \t# c\td\n  - y\n":                 {"a", "x", "y"},
		"a:\n\t\n  b: 1\n":                               {"a", "b", "1"},
		"a:\n  b: 1\n\t\n\t\n \t# x\n  c: 2\n":           {"a", "b", "1", "c", "2"},
		"a: x\n\t\n  y\n":                                {"a", "x\ny"},
		"a: |\n  x\n\t\n  y\n":                           {"a", "x\n\ny\n"},
		"a: |\n  x\n \t\n  y\n":                          {"a", "x\n\ny\n"},
		"a: | # c\n\t\n  x\n":                            {"a", "\nx\n"},
		"a: |\n  x\n  \t\n  y\n":                         {"a", "x\n\t\ny\n"},
		"a: |\n  x\n  \t\n  \t# y\n  z\n\t\nb: 1\n":      {"a", "x\n\t\n\t# y\nz\n", "b", "1"},
		"\t# c\na: |\n  x\n  \t\n  \t# y\n  z\nb: 1\n":   {"a", "x\n\t\n\t# y\nz\n", "b", "1"},
		"a: |\n  x\n  \t\n# c\n\t\nb: 1\n":               {"a", "x\n\t\n", "b", "1"},
		"a: |+\n  x\n  \t\nb: 1\n\t# c\nc: 2\n":          {"a", "x\n\t\n", "b", "1", "c", "2"},
		"a: >\n  x\n  \t# y\n  z\nb: 1\n\t\nc: 2\n":      {"a", "x\n\t# y\nz\n", "b", "1", "c", "2"},
		"- |\n  x\n  \t\n- b\n\t\n- |\n  y\n  \t\n":      {"x\n\t\n", "b", "y\n\t\n"},
		"- \"x\n  \t\n  y\\\n  \tz\"\n- b\n\t\n- 'c\td'": {"x\nyz", "b", "c\td"},
	} {
		root, err := onlyDocument([]byte(file))
		if err != nil {
			t.Errorf("%q: %v", file, err)
			continue
		}
		if got := valuesOf(root); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
	for _, file := range []string{"a:\n\tb: 1\n", "a: |\n  x\n\t\t# y\n  z\n", "a: |\n  \t\n  x\n", "- a\n\t\n- b\n\tc\n", "a: 'x\n\t\nb: 1\n"} {
		if root, err := onlyDocument([]byte(file)); err == nil {
			t.Errorf("%q: %q", file, valuesOf(root))
		}
	}
	long := strings.Repeat("a: 1\n\t\n", 1) + strings.Repeat("\t\n", 300)
	if _, err := onlyDocument([]byte(long)); err != nil {
		t.Errorf("many tabs: %v", err)
	}
}

// FuzzTabs: wherever lines of tabs and comments behind tabs stand between items, the items are what they are without them.
func FuzzTabs(f *testing.F) {
	items := []string{"- |\n  x\n  \t\n  \t# y\n  z\n", "- b\n", "- >\n  x\n\n  \ty\n  \t\n", "- 'c\td'\n", "- e: |\n    \tf\n    g\n    \t\n  h: 1\n", "- - i\n  - |\n    j\n    \t\n", "- |2\n  \t\n  k\n", "-\n  l: 1\n"}
	tabs := []string{"", "", "\t\n", " \t# c\td\n", "\t\n\t\t# - x\n", "\n\t \n", "# c\n\t\n", "\t#\n  \t \n"}
	f.Add([]byte{0, 2, 1, 3, 0, 4, 2, 2, 4, 2, 6, 5})
	f.Fuzz(func(t *testing.T, picks []byte) {
		var plain, with strings.Builder
		for i := 0; i+1 < len(picks) && i < 64; i += 2 {
			item := items[int(picks[i])%len(items)]
			plain.WriteString(item)
			with.WriteString(tabs[int(picks[i+1])%len(tabs)])
			with.WriteString(item)
		}
		want, err := parseSingle([]byte(plain.String()))
		if err != nil {
			return
		}
		got, err := onlyDocument([]byte(with.String()))
		if err != nil {
			return // a tab that the parser takes for a text's is no harm
		}
		if !slices.Equal(valuesOf(got), valuesOf(want)) {
			t.Errorf("%q: %q, want %q", with.String(), valuesOf(got), valuesOf(want))
		}
	})
}
