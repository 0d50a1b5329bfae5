package doctor_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/doctor"
)

type remedied struct{}

func (remedied) Error() string  { return "port 1 is in use: take another" }
func (remedied) Remedy() string { return "take another" }

func TestErrorsAreRows(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []doctor.Row
	}{
		{errors.New("it is so"), []doctor.Row{doctor.Fail("c", "it is so", "otherwise")}},
		{remedied{}, []doctor.Row{doctor.Fail("c", "port 1 is in use", "take another")}},
		{fmt.Errorf("start: %w", remedied{}), []doctor.Row{doctor.Fail("c", "start: port 1 is in use", "take another")}},
		{errors.Join(remedied{}, errors.New("b")), []doctor.Row{doctor.Fail("c", "port 1 is in use", "take another"), doctor.Fail("c", "b", "otherwise")}},
		{fmt.Errorf("%w (last: %w)", errors.New("a"), errors.New("b")), []doctor.Row{doctor.Fail("c", "a (last: b)", "otherwise")}},
	} {
		if diff := cmp.Diff(c.want, doctor.Errors("c", c.err, "otherwise")); diff != "" {
			t.Errorf("%v: %s", c.err, diff)
		}
	}
}

func TestOptionsAreCutAtWhatToGive(t *testing.T) {
	for text, want := range map[string]doctor.Row{
		"--a b: want c": doctor.Fail("options", "--a b", "want c"),
		"mandatory --a not specified; give b: it is needed": doctor.Fail("options", "mandatory --a not specified", "give b: it is needed"),
		"spiffe://x is wrong":                               doctor.Fail("options", "spiffe://x is wrong", "otherwise"),
	} {
		if diff := cmp.Diff(want, doctor.Option(text, "otherwise")); diff != "" {
			t.Error(diff)
		}
	}
}

func TestClock(t *testing.T) {
	for ahead, want := range map[time.Duration]doctor.Status{
		0: doctor.OK, 900 * time.Millisecond: doctor.OK, -4 * time.Second: doctor.OK, 5 * time.Second: doctor.Warning, -29 * time.Second: doctor.Warning,
		30 * time.Second: doctor.Failed, -8 * time.Hour: doctor.Failed,
	} {
		row := doctor.Clock("sn-1", ahead)
		if row.Status != want || (want == doctor.OK) != (row.Remedy == "") {
			t.Errorf("%s: %+v", ahead, row)
		}
		if want == doctor.Failed && strings.Contains(row.Detail, "behind") != (ahead < 0) {
			t.Errorf("%s: %s", ahead, row.Detail)
		}
	}
}

func TestWeights(t *testing.T) {
	full := errors.New("full")
	const large = 1 << 40
	space := func(free int64, err error) doctor.Space {
		return doctor.Space{Check: "x", Dir: "/d", Free: free, Err: err}
	}
	for _, c := range []struct {
		name          string
		bridge, state doctor.Space
		bytes         int64
		want          []doctor.Status
	}{
		{"unknown model", space(large, nil), space(large, nil), 0, []doctor.Status{doctor.OK, doctor.OK}},
		{"unknown model, little memory", space(1<<20, nil), space(large, nil), 0, []doctor.Status{doctor.Warning, doctor.OK}},
		{"unknown model, little disk", space(large, nil), space(1<<20, nil), 0, []doctor.Status{doctor.OK, doctor.Warning}},
		{"nothing is known", space(-1, nil), space(-1, nil), 0, []doctor.Status{doctor.OK, doctor.OK}},
		{"fits", space(large, nil), space(large, nil), 5, []doctor.Status{doctor.OK, doctor.OK}},
		{"fits on disk", space(10, full), space(large, nil), 5, []doctor.Status{doctor.Warning, doctor.OK}},
		{"fits nowhere", space(10, full), space(10, full), 5, []doctor.Status{doctor.Failed, doctor.Failed}},
	} {
		var got []doctor.Status
		for _, row := range doctor.Weights(c.bridge, c.state, c.bytes) {
			got = append(got, row.Status)
			if (row.Status == doctor.OK) != (row.Remedy == "") {
				t.Errorf("%s: %+v", c.name, row)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestEveryStepOfAHandshakeHasARemedy(t *testing.T) {
	for _, step := range []string{"identity", "name", "connection", "protocol", "certificate", "accepted here", "accepted there", "role", "swarm", "health"} {
		if doctor.Handshake(step, "h:1") == "" {
			t.Error(step)
		}
	}
}

func TestPrint(t *testing.T) {
	r := doctor.New("run-sl")
	r.Add(doctor.Well("port", "1 is free"), doctor.Fail("sn", "gone\x1b[2J", "start it"), doctor.Skip("dial back", "later"))
	var plain, coloured strings.Builder
	if err := errors.Join(r.Print(&plain, false), r.Print(&coloured, true)); err != nil {
		t.Fatal(err)
	}
	want := "ok    port       1 is free\n" +
		"FAIL  sn         gone\n" +
		"                 -> start it\n" +
		"-     dial back  later\n\n" +
		"run-sl: 1 failed, 0 warnings, 1 ok, 1 not checked; correct what failed before this node joins\n"
	if diff := cmp.Diff(want, plain.String()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(coloured.String(), "\x1b[31mFAIL\x1b[0m") || r.OK {
		t.Error(coloured.String())
	}
}

// TestReference holds that the page has each key of the JSON form, with what it means.
func TestReference(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	var look func(at reflect.Type, prefix string)
	look = func(at reflect.Type, prefix string) {
		for f := range at.Fields() {
			key := prefix + f.Tag.Get("json")
			if !strings.Contains(page, "| `"+key+"` |") || !strings.Contains(page, f.Tag.Get("doc")+" |") {
				t.Errorf("docs/reference/doctor.md has no row of %s: %s", key, f.Tag.Get("doc"))
			}
			if f.Type.Kind() == reflect.Slice {
				look(f.Type.Elem(), key+".")
			}
		}
	}
	look(reflect.TypeFor[doctor.Report](), "")
}
