package swci

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/report"
)

// WriteReportTypes writes web/src/report.gen.ts: what report.html shows, as TypeScript interfaces.
func WriteReportTypes(w io.Writer) {
	fmt.Fprint(w, "// Generated from the Go structs of internal/swci/report, which say what their fields are; scripts/generate writes it.\n")
	(&interfaces{w: w, written: map[reflect.Type]bool{}}).write(reflect.TypeFor[report.Report]())
}

// WriteDocumentTypes writes web/src/documents.gen.ts: the dashboard's documents as TypeScript interfaces.
func WriteDocumentTypes(w io.Writer) {
	ts := &interfaces{w: w, written: map[reflect.Type]bool{}}
	fmt.Fprint(w, "// Generated from the Go structs of swarmctl's JSON; scripts/generate writes it.\n")
	kinds := documentKinds()
	for _, v := range []any{dashboard.Document{}, dashboard.Link{}, dashboard.Act{}, dashboard.Acted{}, dashboard.LogLine{}} {
		ts.write(reflect.TypeOf(v))
	}
	for _, k := range kinds {
		ts.write(reflect.TypeOf(k.value))
	}
	fmt.Fprint(w, "\n/** What the documents hold, by their names; a name that ends in / has that of something behind it. */\nexport interface DocumentValues {\n")
	for _, k := range kinds {
		key := fmt.Sprintf("%q", k.name)
		if strings.HasSuffix(k.name, "/") {
			key = "[name: `" + k.name + "${string}`]"
		}
		fmt.Fprintf(w, "  %s: %s;\n", key, typeName(reflect.TypeOf(k.value)))
	}
	fmt.Fprint(w, "}\n")
}

// interfaces writes structs as TypeScript interfaces, each once.
type interfaces struct {
	w       io.Writer
	written map[reflect.Type]bool
}

func (i *interfaces) write(t reflect.Type) {
	if i.written[t] {
		return
	}
	i.written[t] = true
	fmt.Fprintf(i.w, "\nexport interface %s {\n", typeName(t))
	inner := i.fields(t)
	fmt.Fprint(i.w, "}\n")
	for _, s := range inner {
		i.write(s)
	}
}

// fields writes the keys of a struct, those of embedded structs among them, and returns the structs in it.
func (i *interfaces) fields(t reflect.Type) (inner []reflect.Type) {
	for n := range t.NumField() {
		f := t.Field(n)
		if f.Anonymous {
			inner = append(inner, i.fields(f.Type)...)
			continue
		}
		if !f.IsExported() {
			continue
		}
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.Contains(options, "omitempty") {
			key += "?"
		}
		kind, s := scriptType(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			fmt.Fprintf(i.w, "  /** %s */\n", strings.ReplaceAll(doc, "*/", "* /"))
		}
		fmt.Fprintf(i.w, "  %s: %s;\n", key, kind)
		if s != nil {
			inner = append(inner, s)
		}
	}
	return inner
}

// scriptType names the TypeScript type of a Go type; inner is the struct in it, or nil.
func scriptType(t reflect.Type) (kind string, inner reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		kind, inner = scriptType(t.Elem())
		return kind + " | null", inner
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // JSON that another struct describes
			return "unknown", nil
		}
		kind, inner = scriptType(t.Elem())
		if t.Elem().Kind() == reflect.Pointer {
			kind = "(" + kind + ")"
		}
		return kind + "[]", inner
	case reflect.Map:
		kind, inner = scriptType(t.Elem())
		return "Record<string, " + kind + ">", inner
	case reflect.Struct:
		return typeName(t), t
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	default:
		return "number", nil
	}
}

// typeName is the name of a struct in TypeScript: nodesJSON is Nodes.
func typeName(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "JSON")
	return strings.ToUpper(name[:1]) + name[1:]
}
