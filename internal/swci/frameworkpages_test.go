package swci_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/swci"
)

// frameworkPages are the pages of frameworks, by name.
func frameworkPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, name := range jobfile.Frameworks {
		if name == jobfile.None {
			continue
		}
		raw, err := os.ReadFile("../../docs/frameworks/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(raw)
	}
	return pages
}

// TestFrameworkPages: the whole job of each page is one of its framework, its commands are those of swarmctl, and the variables of its table are those that
// members have.
func TestFrameworkPages(t *testing.T) {
	g, err := swci.NewGrammar()
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range frameworkPages(t) {
		blocks := yamlBlock.FindAllStringSubmatch(page, -1)
		if n := strings.Count(page, "\n"); len(blocks) != 1 || n < 40 || n > 80 {
			t.Errorf("%s has %d lines and %d files, want one in 40 to 80", name, n, len(blocks))
			continue
		}
		j, err := jobfile.Read(name, []byte(blocks[0][1]))
		if err != nil || j.Framework != name {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w, err := framework.WorldOf(j)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		placed := framework.Placement{Run: "r", Members: make([]framework.Place, w.Size())}
		for i := range placed.Members {
			placed.Members[i] = framework.Place{Host: "h", Name: framework.NameOf(i), Address: "10.0.0.1", Interface: "eth0"}
		}
		all, err := w.Programs(placed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, table, _ := strings.Cut(page, "\n| variable | value |\n")
		table, _, _ = strings.Cut(table, "\n\n")
		documented := 0
		for row := range strings.SplitSeq(table, "\n") {
			names, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
			for _, m := range inlineCode.FindAllStringSubmatch(names, -1) {
				documented++
				if !slices.ContainsFunc(all[0].Env, func(v jobfile.Var) bool { return v.Name == m[1] }) && !strings.Contains(row, "Not set where") {
					t.Errorf("%s: no member has %s", name, m[1])
				}
			}
		}
		commands := 0
		for _, m := range codeLine.FindAllStringSubmatch(yamlBlock.ReplaceAllString(page, "\n"), -1) {
			words, err := shellwords.Split(m[1])
			if err == nil {
				commands++
				err = g.Check(words[1:])
			}
			if err != nil || words[0] != "swarmctl" {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
		}
		if documented < 3 || commands < 2 {
			t.Errorf("%s has %d variables and %d commands", name, documented, commands)
		}
	}
}

// open are the parts of a message that differ: what a page leaves out, and numbers.
var open = regexp.MustCompile(`…|\d+`)

// TestFrameworkPagesFailures: each message in a page is one that a program or a test has.
func TestFrameworkPagesFailures(t *testing.T) {
	var known strings.Builder
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".py" {
			return err
		}
		raw, err := os.ReadFile(name)
		known.Write(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := known.String()
	for name, page := range frameworkPages(t) {
		_, table, _ := strings.Cut(page, "\n## When it fails\n")
		rows := 0
		for row := range strings.SplitSeq(table, "\n") {
			message, found := strings.CutPrefix(row, "| `")
			if !found {
				continue
			}
			rows++
			message, _, _ = strings.Cut(message, "`")
			for _, part := range open.Split(message, -1) {
				if !strings.Contains(texts, part) {
					t.Errorf("%s: nothing says %q", name, part)
				}
			}
		}
		if rows < 5 {
			t.Errorf("%s has %d failures", name, rows)
		}
	}
}
