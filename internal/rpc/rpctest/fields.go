package rpctest

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fill sets every field of a value to something that is not zero, different from field to field.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Field(i).CanSet() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString("text" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n % 250))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	}
}

// Filled returns a value of which no field is zero, different from field to field.
func Filled[T any]() T {
	var out T
	n := 0
	fill(reflect.ValueOf(&out).Elem(), &n)
	return out
}

// Full fails for each field of the message that is not set, except those named.
func Full(t testing.TB, m proto.Message, except ...protoreflect.Name) {
	t.Helper()
	r := m.ProtoReflect()
	skip := map[protoreflect.Name]bool{}
	for _, e := range except {
		skip[e] = true
	}
	for i := range r.Descriptor().Fields().Len() {
		f := r.Descriptor().Fields().Get(i)
		if r.Has(f) == skip[f.Name()] {
			t.Errorf("%s.%s: set is %v", r.Descriptor().Name(), f.Name(), r.Has(f))
		}
	}
}
