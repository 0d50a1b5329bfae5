package meta

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// violation is one breach of a rule: what breaks it, and in which way.
type violation struct{ subject, message string }

// rules are all rules by the name that exceptions use.
var rules = []struct {
	name  string
	check func(*repo) []violation
}{
	{"ranks", checkRanks},
	{"test-only", checkTestOnly},
	{"never", checkNever},
	{"pure", checkPure},
	{"sizes", checkSizes},
	{"docs", checkDocs},
	{"sleep", checkSleep},
	{"init", checkInit},
	{"names", checkNames},
	{"exported", checkExported},
	{"types", checkTypes},
	{"words", checkWords},
	{"logs", checkLogs},
	{"scripts", checkScripts},
	{"sequential", checkSequential},
	{"makefile", checkMakefile},
	{"documents", checkDocuments},
}

// TestRules holds the rules over the whole repository.
func TestRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := parseExceptions(string(text))
	if err != nil {
		t.Fatal(err)
	}
	r := load(t)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, problem := range judge(rule.check(r), allowed[rule.name]) {
				t.Error(problem)
			}
		})
	}
}

// judge turns violations into messages, leaving out those with an exception, and reports exceptions without a violation.
func judge(found []violation, allowed map[string]bool) (problems []string) {
	used := map[string]bool{}
	for _, v := range found {
		if allowed[v.subject] {
			used[v.subject] = true
			continue
		}
		problems = append(problems, v.subject+" "+v.message)
	}
	for subject := range allowed {
		if !used[subject] {
			problems = append(problems, subject+" is in exceptions.txt but breaks nothing: take the line out")
		}
	}
	return problems
}

// parseExceptions reads lines "RULE SUBJECT: reason" into rule → subjects. Empty lines and lines that begin with # are
// skipped.
func parseExceptions(text string) (map[string]map[string]bool, error) {
	known := map[string]map[string]bool{}
	for _, rule := range rules {
		known[rule.name] = map[string]bool{}
	}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		head, reason, ok := strings.Cut(line, ": ")
		rule, subject, both := strings.Cut(head, " ")
		if !ok || !both || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("exceptions.txt:%d: want RULE SUBJECT: reason", i+1)
		}
		if known[rule] == nil {
			return nil, fmt.Errorf("exceptions.txt:%d: there is no rule %q", i+1, rule)
		}
		known[rule][subject] = true
	}
	return known, nil
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	if _, err := parseExceptions("# comment\n\nsizes a/b.go: it is a table\n"); err != nil {
		t.Errorf("good file: %v", err)
	}
	for _, bad := range []string{"sizes a/b.go", "sizes a/b.go: ", "shape a/b.go: reason", "sizes: reason"} {
		if _, err := parseExceptions(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	got := judge([]violation{{"a", "is bad"}, {"b", "is bad"}}, map[string]bool{"a": true, "c": true})
	want := []string{"b is bad", "c is in exceptions.txt but breaks nothing: take the line out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("judge (-want +got):\n%s", diff)
	}
}

// TestRulesFire breaks each rule on purpose: a rule that can't fail holds nothing.
func TestRulesFire(t *testing.T) {
	t.Parallel()
	const doc = "// Package p is.\n"
	tests := []struct {
		name, rule string
		pkg        string
		path, text string
		imports    []string
		want       string // in some message; empty: no violation of this package
	}{
		{"no rank", "ranks", "internal/new", "internal/new/a.go", "package p", nil, "has no rank"},
		{"upwards", "ranks", "merge", "merge/a.go", "package p", []string{"node"}, "imports node (rank 3)"},
		{"equal", "ranks", "consensus", "consensus/a.go", "package p", []string{"internal/p2p"}, "only lower ranks"},
		{"downwards", "ranks", "node", "node/a.go", "package p", []string{"merge"}, ""},
		{"stand-in", "test-only", "node", "node/a.go", "package p", []string{"internal/p2p/p2ptest"}, "for tests only"},
		{"past the client", "never", "internal/swci/local", "internal/swci/local/a.go", "package p", []string{"consensus/state"}, "through internal/client"},
		{"a part of swci", "never", "internal/daemon", "internal/daemon/a.go", "package p", []string{"internal/swci/exit"}, "a part of internal/swci"},
		{"clock", "pure", "consensus/state", "consensus/state/a.go", "package p", []string{"time"}, "must not import time"},
		{"long file", "sizes", "p", "p/a.go", "package p\n" + strings.Repeat("\n", 600), nil, "has 601 lines"},
		{"long test", "sizes", "p", "p/a_test.go", "package p\n" + strings.Repeat("\n", 700), nil, ""},
		{"node", "sizes", "node", "node/a.go", "package p\n" + strings.Repeat("\n", 950), nil, "beside composing"},
		{"only in tests", "exported", "p", "p/a.go", "package p\nfunc F() {}\nfunc g() {}", nil, "p.F is exported and no code but tests"},
		{"used inside", "exported", "p", "p/a.go", "package p\nfunc F() {}\nvar x = F", nil, ""},
		{"generated", "sizes", "p", "p/a.go", "// Code generated by x. DO NOT EDIT.\npackage p\n" + strings.Repeat("\n", 600), nil, ""},
		{"no package comment", "docs", "p", "p/a.go", "package p", nil, "no package comment"},
		{"func", "docs", "p", "p/a.go", doc + "package p\nfunc F() {}", nil, "a.go:F is exported"},
		{"method", "docs", "p", "p/a.go", doc + "package p\n// T is.\ntype T[K any] struct{}\nfunc (t *T[K]) M() {}", nil, "a.go:T.M is exported"},
		{"type", "docs", "p", "p/a.go", doc + "package p\ntype T int", nil, "a.go:T is exported"},
		{"const", "docs", "p", "p/a.go", doc + "package p\nconst (\n\tA = 1\n)", nil, "a.go:A is exported"},
		{"documented", "docs", "p", "p/a.go", doc + "package p\n// These.\nconst A = 1\ntype t int\nfunc (t) M() {}\n// F does.\nfunc F() {}", nil, ""},
		{"sleep", "sleep", "p", "p/a_test.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", nil, "sleeps"},
		{"renamed", "sleep", "p", "p/a_test.go", "package p\nimport clock \"time\"\nvar f = clock.Sleep", nil, "sleeps"},
		{"bubble", "sleep", "p", "p/a_test.go", "package p\nimport (\"time\"; \"testing/synctest\")\nfunc f() { time.Sleep(1) }", nil, ""},
		{"init", "init", "p", "p/a.go", "package p\nfunc init() {}", nil, "init function"},
		{"name", "words", "p", "p/a.go", "package p\nvar tellWalls = 1", nil, `says "Walls": say isolation`},
		{"comment", "words", "p", "p/a_test.go", "package p\n// It tells whether.\nvar a = 1", nil, "reports whether"},
		{"message", "words", "p", "p/a.go", "package p\nconst a = \"an earlier life\"", nil, "incarnation"},
		{"document", "words", "p", "docs/a.md", "The doorman.", nil, "admission"},
		{"frozen", "words", "p", "p/a.go", "package p\ntype a struct { I string `json:\"walls\"` }", nil, ""},
		{"order", "logs", "p", "p/a.go", "package p\nvar _ = log.Warn(\"close node\")", nil, "which is an order"},
		{"with context", "logs", "p", "p/a.go", "package p\nvar _ = log.WarnContext(ctx, \"read: x\")", nil, "which is an order"},
		{"happened", "logs", "p", "p/a.go", "package p\nvar _ = log.Warn(\"could not close the node\")", nil, ""},
		{"mode", "scripts", "p", "scripts/x", "#!/bin/sh", nil, "not executable"},
		{"help", "makefile", "p", "Makefile", "x: y\n\tdo\n", nil, "Makefile:x has no ## help"},
		{"link", "documents", "p", "docs/a.md", "[a](b.md)", nil, "links to b.md"},
		{"lonely page", "documents", "p", "docs/a.md", "", nil, "no other page links to it"},
		{"picture", "documents", "p", "docs/images/a.png", strings.Repeat("x", 200<<10+1), nil, "larger than 200 KiB"},
		{"target", "documents", "p", "README.md", "    make nothing", nil, "names make nothing"},
		{"map", "documents", "p", "docs/a.md", "", nil, "p is not on the map"},
	}
	for _, test := range tests {
		t.Run(test.rule+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			r := &repo{packages: []*pkg{{name: test.pkg, imports: test.imports}}, files: map[string]file{}}
			if strings.HasSuffix(test.path, ".go") {
				s, err := parse(test.path, []byte(test.text))
				if err != nil {
					t.Fatal(err)
				}
				r.packages[0].files = append(r.packages[0].files, s)
			} else {
				r.files[test.path] = file{text: test.text}
			}
			var all []string
			for _, rule := range rules {
				if rule.name != test.rule {
					continue
				}
				for _, v := range rule.check(r) {
					// In so small a repository every table names packages that don't exist.
					if !strings.Contains(v.message, "does not exist: take") && !strings.HasPrefix(v.message, "is listed as") && !strings.HasPrefix(v.message, "is forbidden") {
						all = append(all, v.subject+" "+v.message)
					}
				}
			}
			text := strings.Join(all, "\n")
			if test.want == "" && text != "" || !strings.Contains(text, test.want) {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}

// TestNames shows which functions count as one of a name.
func TestNames(t *testing.T) {
	t.Parallel()
	r := &repo{}
	add := func(pkgName, file, text string) {
		s, err := parse(file, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r.packages = append(r.packages, &pkg{name: pkgName, files: []*source{s}})
	}
	for _, p := range []string{"a", "b", "c"} {
		add(p, p+"/x.go", "package p\nfunc plain() {}\ntype t int\nfunc (t) method() {}")
	}
	add("a", "a/y.go", "package p\nfunc twice() {}")
	add("b", "b/y.go", "package p\nfunc twice() {}")
	add("c", "c/y_test.go", "package p\nfunc twice() {}")
	add("d", "d/z.go", "// Code generated by x. DO NOT EDIT.\npackage p\nfunc twice() {}")
	add("node/nodetest", "node/nodetest/z.go", "package p\nfunc twice() {}")
	got := checkNames(r)
	if len(got) != 1 || got[0].subject != "plain" || !strings.HasSuffix(got[0].message, ": a, b, c") {
		t.Errorf("got %v, want plain in a, b and c", got)
	}
}

// TestStaleTables shows that tables about packages that are gone are found.
func TestStaleTables(t *testing.T) {
	t.Parallel()
	empty := &repo{files: map[string]file{}}
	for _, rule := range rules[:4] {
		if len(rule.check(empty)) == 0 {
			t.Errorf("%s: nothing is said about packages that do not exist", rule.name)
		}
	}
}
