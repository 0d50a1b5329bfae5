package state_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// It reads the sources, so that a reason that is added without a category is found.
func TestEveryReasonHasOneCategory(t *testing.T) {
	times := map[string]int{}
	for category, reasons := range state.Reasons() {
		for _, reason := range reasons {
			times[reason]++
			if got := (&state.Error{Reason: reason}).Category(); got != category {
				t.Errorf("%s has the category %d, want %d", reason, got, category)
			}
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		declared++
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || times[reason] != 1 {
			t.Errorf("%s has %d categories, want one", spec.Names[0].Name, times[reason])
		}
		return true
	})
	if declared != len(times) {
		t.Errorf("%d reasons have a category, %d are declared", len(times), declared)
	}
	if got := (&state.Error{Reason: "NEWER"}).Category(); got != 0 {
		t.Errorf("an unknown reason has the category %d", got)
	}
}
