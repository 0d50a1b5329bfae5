package swci

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// jsonField is one key of what a command prints as JSON.
type jsonField struct {
	path string // "sessions[].loss"
	kind string // "number or null"
	doc  string
}

// jsonFields describes the keys of a struct and of the structs in it, from its json and doc tags.
func jsonFields(t reflect.Type, prefix string) []jsonField {
	var out []jsonField
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous { // its keys stand among the struct's own
			out = append(out, jsonFields(f.Type, prefix)...)
			continue
		}
		if !f.IsExported() {
			continue
		}
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind, inner := jsonKind(f.Type)
		if strings.Contains(options, "omitempty") {
			kind += ", may be absent"
		}
		path := prefix + key
		if f.Type.Kind() == reflect.Slice {
			path += "[]"
		}
		out = append(out, jsonField{strings.TrimSuffix(path, "[]"), kind, f.Tag.Get("doc")})
		if inner != nil {
			out = append(out, jsonFields(inner, path+".")...)
		}
	}
	return out
}

// jsonKind names the JSON type of a Go type; inner is the struct in it, or nil.
func jsonKind(t reflect.Type) (kind string, inner reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		kind, inner = jsonKind(t.Elem())
		return kind + " or null", inner
	case reflect.Slice:
		kind, inner = jsonKind(t.Elem())
		return "array of " + kind + "s", inner
	case reflect.Struct:
		return "object", t
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Float64:
		return "number", nil
	default:
		return "integer", nil
	}
}

// referenceJSON writes the table of a command's JSON form.
func referenceJSON(w io.Writer, v any) {
	if v == nil {
		return
	}
	fmt.Fprint(w, "With `-o json`:\n\n| key | type | meaning |\n|---|---|---|\n")
	for _, f := range jsonFields(reflect.TypeOf(v), "") {
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", f.path, f.kind, f.doc)
	}
	fmt.Fprintln(w)
}
