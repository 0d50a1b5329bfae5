package merge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/merge"
)

// TestReferencePageHasAllMethods holds the table of docs/reference/methods.md to
// the registry.
func TestReferencePageHasAllMethods(t *testing.T) {
	b, err := os.ReadFile("../docs/reference/methods.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	wires := "| `wire` | `" + strings.Join(merge.Wires(), "`, `") + "`;"
	for _, row := range append(methodRows(), wires) {
		if !strings.Contains(page, row) {
			t.Errorf("docs/reference/methods.md lacks the row\n%s", row)
		}
	}
}

func methodRows() (rows []string) {
	for _, name := range merge.Methods() {
		doc, params := merge.Explain(name)
		if len(params) == 0 {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | | | | |", name, doc))
		}
		first := fmt.Sprintf("| `%s` | %s |", name, doc)
		for _, p := range params {
			rows = append(rows, fmt.Sprintf("%s `%s` | %g | %s | %s |", first, p.Name, p.Default, p.Range, p.Doc))
			first = "| | |"
		}
	}
	return rows
}
