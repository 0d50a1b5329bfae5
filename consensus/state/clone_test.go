package state_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// A field that is added to a state or a contract must be copied in its clone, or never be changed and stand here with that reason.
func TestACloneSharesNothingThatIsChanged(t *testing.T) {
	s := &state.State{}
	fill(t, s)
	sharesOnly(t, s, s.Clone(),
		"Nodes", "Contracts", // copied when the first of them is set
		"Invitations", "Tasks", "Rights", // replaced as a whole
	)
	c := &state.Contract{}
	fill(t, c)
	sharesOnly(t, c, c.Clone(),
		"Terms", "Committed", "Plan", "Due", "Skips", "RecentCommitMS", "Rules", "Lost", "Adopted", "Fetches", "Halt", // replaced as a whole
	)
}

// fill gives every field that can share memory some.
func fill(t *testing.T, of any) {
	t.Helper()
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue // what is not encoded belongs to the value, see Apply
		}
		switch f.Kind() {
		case reflect.Map:
			m := reflect.MakeMap(f.Type())
			m.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(f.Type().Elem()))
			f.Set(m)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 2))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Struct, reflect.Array, reflect.Interface, reflect.Chan, reflect.Func:
			t.Fatalf("this test can't fill the field %s", v.Type().Field(i).Name)
		}
	}
}

// sharesOnly holds that of two values of one struct these fields share memory and no others do.
func sharesOnly(t *testing.T, a, b any, fields ...string) {
	t.Helper()
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		field := x.Type().Field(i)
		if k := field.Type.Kind(); !field.IsExported() || k != reflect.Map && k != reflect.Slice && k != reflect.Pointer {
			continue
		}
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			t.Errorf("%s.%s of the clone is not equal", x.Type(), field.Name)
		}
		if shared := x.Field(i).Pointer() == y.Field(i).Pointer(); shared != slices.Contains(fields, field.Name) {
			t.Errorf("%s.%s is shared with the clone: %t", x.Type(), field.Name, shared)
		}
	}
}
