package swci

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestLex(t *testing.T) {
	g, err := NewGrammar()
	if err != nil {
		t.Fatal(err)
	}
	const body = "append task body t 3 "
	for line, want := range map[string][]string{
		`list  "no des"`:                             {"list", "no des"},
		"APPEND TASK BODY t 3 - FROM a b":            {"APPEND", "TASK", "BODY", "t", "3", "- FROM a b"},
		body + "  - COPY it's  here":                 {"append", "task", "body", "t", "3", "  - COPY it's  here"},
		body + "'  - one word'":                      {"append", "task", "body", "t", "3", "  - one word"},
		body + `'it'"'"'s'`:                          {"append", "task", "body", "t", "3", "it's"},
		body + `"a" : "b"`:                           {"append", "task", "body", "t", "3", `"a" : "b"`},
		body + `RUN pip install x\ y`:                {"append", "task", "body", "t", "3", `RUN pip install x\ y`},
		"append  task body 'a task' 3 --x  y":        {"append", "task", "body", "a task", "3", "--x  y"},
		"append task body -o json t 3 it y":          {"append", "task", "body", "-o", "json", "t", "3", "it", "y"},
		strings.TrimSuffix(body, " "):                {"append", "task", "body", "t", "3"},
		"append task body t":                         {"append", "task", "body", "t"},
		"reset contract c # as new # now":            {"reset", "contract", "c"},
		"list\u00a0 nodes":                           {"list", "nodes"},
		"set context env a 'x\u00a0y'\u00a0":         {"set", "context", "env", "a", "x\u00a0y"},
		"set context env a \"\u00a0\"\u00a0#\u00a0b": {"set", "context", "env", "a", "\u00a0"},
		"set context env a x\\\u00a0y":               {"set", "context", "env", "a", "x\u00a0y"},
		body + "a\u00a0b":                            {"append", "task", "body", "t", "3", "a\u00a0b"},
		"list nodes\t# all":                          {"list", "nodes"},
		"set context env COLOUR #fff":                {"set", "context", "env", "COLOUR", "#fff"},
		"set context env a 'x # y' # z":              {"set", "context", "env", "a", "x # y"},
		body + "RUN make # all":                      {"append", "task", "body", "t", "3", "RUN make # all"},
		"  append task body t 3 RepoName : a ":       {"append", "task", "body", "t", "3", "RepoName : a"},
	} {
		got, err := g.lex(line)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", line, err, diff)
		}
	}
	for _, bad := range []string{"list 'nodes", `append task body -o json t 3 it's`} {
		if words, err := g.lex(bad); err == nil {
			t.Errorf("%q: %q", bad, words)
		}
	}
}

// FuzzLine takes a line of a script apart and looks for its command, and for what may follow it.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"list nodes", "append task body t 1   - it's", `append task body "a b" 1 'x'`, "EXIT ON FAILURE", `create context "x`, `set context env a\ b -1`, "help get",
	} {
		f.Add(line)
	}
	g, err := NewGrammar()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := g.lex(line)
		if err != nil {
			return
		}
		if err := g.Check(words); err != nil && exit.Code(err) != exit.Usage {
			t.Errorf("%q: %v has code %d", line, err, exit.Code(err))
		}
		if len(words) > maxWords {
			return
		}
		for _, next := range g.following(words) {
			longer := append(slices.Clone(words), next.word)
			if next.kind == "" && g.named(longer) == nil && len(g.following(longer)) == 0 {
				t.Errorf("%q is said to follow %q, and leads to no command", next.word, words)
			}
		}
	})
}
