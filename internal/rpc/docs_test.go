package rpc_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
)

// The table of roles and rights in docs/security.md is made from the access table; -update writes it.
func TestSecurityDocumentShowsTheAccessTable(t *testing.T) {
	const (
		path  = "../../docs/security.md"
		begin = "<!-- rights: made by go test ./internal/rpc -update -->\n"
		end   = "<!-- end of rights -->\n"
	)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table: %q to %q", path, begin, end)
	}
	want := rightsTable()
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(old, want); d != "" {
		t.Errorf("%s differs from the access table (-document +table); run go test ./internal/rpc -update:\n%s", path, d)
	}
}

func rightsTable() string {
	var b strings.Builder
	b.WriteString("| call |")
	for _, r := range identity.Roles() {
		fmt.Fprintf(&b, " %s |", r)
	}
	b.WriteString(" also needs |\n|---|")
	b.WriteString(strings.Repeat(":-:|", len(identity.Roles())) + "---|\n")
	table := rpc.AccessTable()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		a := table[name]
		fmt.Fprintf(&b, "| `%s` |", strings.TrimPrefix(name, "/swarm.v1."))
		for _, r := range identity.Roles() {
			mark := " "
			if slices.Contains(a.Roles, r) {
				mark = " yes "
			}
			b.WriteString(mark + "|")
		}
		var needs []string
		if !a.AnySwarm {
			needs = append(needs, "swarm ID")
		}
		if a.Token {
			needs = append(needs, "the node's token")
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(needs, ", "))
	}
	return b.String()
}
