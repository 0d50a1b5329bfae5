package meta

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packageLists are the lists of packages in scripts/test.
var packageLists = regexp.MustCompile(`(?m)^(longest|sequential)=\(([^)]*)\)`)

// checkSequential holds that the packages that scripts/test runs without the race detector need none: neither their code nor their
// tests start a goroutine or use unsafe pointers.
func checkSequential(r *repo) (found []violation) {
	lists := map[string][]string{}
	for _, m := range packageLists.FindAllStringSubmatch(r.files["scripts/test"].text, -1) {
		lists[m[1]] = strings.Fields(m[2])
		for _, name := range lists[m[1]] {
			if !r.has(name) {
				found = append(found, violation{name, "is listed in scripts/test but does not exist"})
			}
		}
	}
	names := lists["sequential"]
	if len(names) == 0 || len(lists["longest"]) == 0 {
		found = append(found, violation{"scripts/test", "has no list of the longest packages, or of those that start no goroutine"})
	}
	for _, p := range r.packages {
		if !slices.Contains(names, p.name) {
			continue
		}
		for _, s := range p.files {
			if what := concurrency(s.ast); what != "" {
				found = append(found, violation{s.path, what + ": take " + p.name + " out of the list of scripts/test, so that the race detector judges it"})
			}
		}
	}
	return found
}

// concurrency says what in a file the race detector, or the check of pointers that comes with it, could judge; empty: nothing.
func concurrency(f *ast.File) (what string) {
	for _, imported := range f.Imports {
		switch path := strings.Trim(imported.Path.Value, `"`); path {
		case "sync", "sync/atomic", "testing/synctest", "golang.org/x/sync/errgroup", "net", "net/http", "os/exec", "unsafe":
			what = "imports " + path
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "starts a goroutine"
		case *ast.SelectorExpr:
			switch n.Sel.Name {
			case "Go", "AfterFunc", "Parallel", "RunParallel":
				what = "calls " + n.Sel.Name
			}
		}
		return true
	})
	return what
}

// TestConcurrency shows what counts.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"func f() { g() }":                     "",
		"func f() { go g() }":                  "starts a goroutine",
		"func f() { func() { go g() }() }":     "starts a goroutine",
		"func f() { w.Go(g) }":                 "calls Go",
		"func f() { time.AfterFunc(d, g) }":    "calls AfterFunc",
		"func f(t *testing.T) { t.Parallel()}": "calls Parallel",
		"import \"sync\"":                      "imports sync",
	} {
		s, err := parse("p/a.go", []byte("package p\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := concurrency(s.ast); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
