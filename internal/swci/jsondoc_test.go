package swci_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/bench"
	"github.com/swarmd/swarmd/internal/swci/report"
)

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// eachField calls fn for every field of a struct and of the structs in it.
func eachField(t reflect.Type, fn func(reflect.StructField)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.IsExported() && !f.Anonymous {
			fn(f)
		}
		if f.IsExported() || f.Anonymous {
			eachField(f.Type, fn)
		}
	}
}

func key(f reflect.StructField) string {
	k, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return k
}

func TestJSONOfEveryCommandIsDocumented(t *testing.T) {
	elsewhere := map[string]bool{"help [COMMAND...]": true, "stop [OPTION...]": true, "local run": true, "local up": true, "bench merge": true, "forward JOB MEMBER": true, "dashboard": true, "top [CONTRACT]": true}
	for _, c := range grammar(t).Commands() {
		if c.JSON == nil {
			if c.Group == "SWCI" {
				continue // what they do is no data
			}
			if !elsewhere[c.Pattern] {
				t.Errorf("%s: the JSON form is not described", c.Pattern)
			}
			continue
		}
		eachField(reflect.TypeOf(c.JSON), func(f reflect.StructField) {
			if !snakeCase.MatchString(key(f)) || f.Tag.Get("doc") == "" {
				t.Errorf("%s: field %s has key %q and doc %q", c.Pattern, f.Name, key(f), f.Tag.Get("doc"))
			}
		})
	}
}

func TestJSONIsAsDocumented(t *testing.T) {
	for _, words := range []string{
		"list nodes", "get health", "get ports", "forget node sl-0", "admit node sn-1", "ban node sl-0", "unban node sl-0", "list contracts", "get contract status c", "reset contract c force", "delete contract c force", "pause contract c", "resume contract c", "end contract c", "version", "list contexts", "create context c ip sn --identity=/run/agent.sock",
	} {
		out, err := run(t, append(strings.Fields(words), "--sn=10.0.0.1:30304", "-o", "json")...)
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		for _, c := range grammar(t).Commands() {
			name, _, _ := strings.Cut(c.Pattern, " NAME")
			if !strings.HasPrefix(words, name) || c.JSON == nil {
				continue
			}
			d := json.NewDecoder(strings.NewReader(out))
			d.DisallowUnknownFields()
			if err := d.Decode(reflect.New(reflect.TypeOf(c.JSON)).Interface()); err != nil {
				t.Errorf("%s: %v\n%s", words, err, out)
			}
			for i := range reflect.TypeOf(c.JSON).NumField() {
				f := reflect.TypeOf(c.JSON).Field(i)
				if k := key(f); f.IsExported() && !strings.Contains(out, "\n  \""+k+"\": ") {
					t.Errorf("%s: key %s is missing:\n%s", words, k, out)
				}
			}
		}
	}
}

func TestLocalReferenceHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/local.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{report.Summary{}, bench.Result{}} {
		eachField(reflect.TypeOf(v), func(f reflect.StructField) {
			if k := key(f); !strings.Contains(string(text), "`"+k+"`") && !strings.Contains(string(text), "`peers[]."+k+"`") {
				t.Errorf("docs/reference/local.md says nothing of %T's key %s", v, k)
			}
		})
	}
}
