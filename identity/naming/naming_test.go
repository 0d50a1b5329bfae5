package naming_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/naming"
)

func TestNames(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		node, contract bool
	}{
		{"a", true, true},
		{"9.Z_-", true, true},
		{strings.Repeat("x", 63), true, true},
		{strings.Repeat("x", 64), false, true},
		{strings.Repeat("x", 128), false, true},
		{strings.Repeat("x", 129), false, false},
		{"", false, false},
		{".a", false, false},
		{"_a", false, false},
		{"-a", false, false},
		{"a b", false, false},
		{"a/b", false, false},
		{"a\n", false, false},
		{"ä", false, false},
	}
	for _, test := range tests {
		if node, contract := naming.ValidNode(test.name), naming.ValidContract(test.name); node != test.node || contract != test.contract {
			t.Errorf("%q: a node's %v, a contract's %v; want %v and %v", test.name, node, contract, test.node, test.contract)
		}
		if err := naming.CheckNode(test.name); (err == nil) != test.node {
			t.Errorf("%q: %v", test.name, err)
		}
	}
}
