package start

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/consensus/task"
)

// samples are values that an option of a field's type can have.
func samples(o option) []string {
	switch o.value.Interface().(type) {
	case []string:
		return []string{"a b", "c=d,e"}
	case bool:
		return []string{"true"}
	case Wait, Limit, *Limit:
		return []string{"1m30s"}
	case Words:
		return []string{`python3 -u 'my "prog".py' --lr=0.1`}
	case Agent:
		return []string{"value of " + o.name}
	case task.Part:
		return []string{"h/7/1/0"}
	}
	switch o.value.Kind() {
	case reflect.String:
		return []string{"text of " + o.name}
	}
	return []string{"7"}
}

// TestWhatIsToldIsReadAgain holds that what swarmd in a container is told makes the same options of it, for every option that goes on
// as it is.
func TestWhatIsToldIsReadAgain(t *testing.T) {
	for _, outer := range []any{&SN{}, &SL{}, &SpireServer{}, &SWCI{}, &SWOP{}} {
		inner := reflect.New(reflect.TypeOf(outer).Elem()).Interface()
		var onward []string
		for _, o := range optionsOf(reflect.ValueOf(outer).Elem()) {
			if o.place != Onward {
				continue
			}
			onward = append(onward, o.name)
			for _, text := range samples(o) {
				if err := o.set(text); err != nil {
					t.Fatalf("--%s %s: %v", o.name, text, err)
				}
			}
		}
		var to told
		if err := to.add(outer); err != nil {
			t.Fatal(err)
		}
		err := Read(inner, func(name string) (values []string) {
			for _, a := range to.args {
				if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
					values = append(values, v)
				}
			}
			return values
		})
		if diff := cmp.Diff(inner, outer, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%T: %v (-read +told)\n%s", outer, err, diff)
		}
		for _, name := range onward {
			if !slices.ContainsFunc(to.args, func(a string) bool { return strings.HasPrefix(a, "--"+name+"=") }) {
				t.Errorf("%T: --%s is not told", outer, name)
			}
		}
	}
}

// TestNothingIsToldOfDefaults holds that options which were not given are the container's own business.
func TestNothingIsToldOfDefaults(t *testing.T) {
	for _, options := range []any{&SN{}, &SL{}, &SpireServer{}, &SWCI{}, &SWOP{}} {
		var to told
		if err := to.add(options); err != nil || len(to.args)+len(to.vars)+len(to.files) > 0 {
			t.Errorf("%T: %v, %+v", options, err, to)
		}
	}
}

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		into        encoding.TextUnmarshaler
		text, again string // "": an error
	}{
		{new(Size), "8g", "8g"},
		{new(Size), "8192m", "8g"},
		{new(Size), "512", "512"},
		{new(Size), "1536k", "1536k"},
		{new(Size), "8x", ""},
		{new(Size), "-1", ""},
		{new(Port), "1", "1"},
		{new(Port), "65535", "65535"},
		{new(Port), "0", ""},
		{new(Port), "65536", ""},
		{new(Port), "x", ""},
		{new(CPUs), "1.5", "1.5"},
		{new(CPUs), "100000", "100000"},
		{new(CPUs), "NaN", ""},
		{new(CPUs), "0", ""},
		{new(Wait), "90s", "1m30s"},
		{new(Wait), "0s", ""},
		{new(Wait), "169h", ""},
		{new(Limit), "0s", "0s"},
		{new(Limit), "-1s", ""},
		{new(Limit), "x", ""},
		{new(Count), "1", "1"},
		{new(Count), "0", ""},
		{new(Words), `a "b c"  'd'`, `a 'b c' d`},
		{new(Words), `'`, ""},
		{new(Words), "caf\xe9", ""},
	} {
		err := tt.into.UnmarshalText([]byte(tt.text))
		if tt.again == "" {
			if err == nil {
				t.Errorf("%T %q: no error", tt.into, tt.text)
			}
			continue
		}
		got := option{value: reflect.ValueOf(tt.into)}.texts()
		if err != nil || len(got) != 1 || got[0] != tt.again {
			t.Errorf("%T %q: %v, %q; want %q", tt.into, tt.text, err, got, tt.again)
		}
	}
}

// FuzzWords holds that words which are written are read again.
func FuzzWords(f *testing.F) {
	f.Add("a", "b c", `d'"\`)
	f.Add("", "\n", "\\")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want, got := Words{a, b, c}, Words(nil)
		text := []byte(want.String())
		if err := got.UnmarshalText(text); (err == nil) != utf8.Valid(text) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q became %q: %v", want, got, err)
		}
	})
}
