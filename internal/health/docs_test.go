package health_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/health"
)

// keys are the JSON keys of a struct, with those of structs in it.
func keys(t reflect.Type, prefix string) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		k := prefix + f.Tag.Get("json")
		out = append(out, k)
		if f.Type == reflect.TypeFor[health.Identity]() {
			out = append(out, keys(f.Type, k+".")...)
		}
	}
	return out
}

func TestReferenceHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/health.md")
	if err != nil {
		t.Fatal(err)
	}
	all := keys(reflect.TypeFor[health.Report](), "")
	for _, k := range all {
		if !strings.Contains(string(text), "\n| `"+k+"` | ") {
			t.Errorf("docs/reference/health.md says nothing of %s", k)
		}
	}
	if n := strings.Count(string(text[strings.Index(string(text), "## JSON"):]), "\n| `"); n != len(all) {
		t.Errorf("docs/reference/health.md lists %d keys, there are %d", n, len(all))
	}
}
