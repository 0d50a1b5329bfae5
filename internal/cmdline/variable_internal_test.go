package cmdline

import (
	"os"
	"strings"
	"testing"
)

// TestVariablesOnThePage holds that the page for users of the original names every variable.
func TestVariablesOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/quickstart-hpe.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range originalVariables {
		for _, name := range v.Names {
			if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+name+"=") {
				t.Errorf("the page does not name %s", name)
			}
		}
		if said := v.Option != "" || v.Says != "" || v.Use != ""; !said {
			t.Errorf("nothing is known of %v", v.Names)
		}
	}
}
