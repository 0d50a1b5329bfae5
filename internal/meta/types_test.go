package meta

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	maxMethods = 30
	maxFields  = 15
	// maxDataMethods is how many methods a struct with many fields may have without further conditions.
	maxDataMethods = 3
)

// large are types that may be larger than the limits, with the size that they may have at most: it is lowered when one shrinks, and
// never raised. A type that keeps the limits has no row.
var large = map[string]struct {
	methods, fields int
	why             string
}{
	"consensus/state.State":    {52, 13, "pure: its methods are the questions that others ask about the replicated state"},
	"consensus/state.Contract": {41, 23, "pure: its methods are the questions that others ask about a contract"},
}

// checkTypes limits the methods and the fields of types: what outgrows them holds more than one idea. What a type embeds by value
// from its own package counts with all that it has, and so do the fields of structs without a name.
//
// Data, options and state may have more fields. A struct is one of them if it has at most three methods, or none that can change
// it (none has a pointer receiver), or if it hides nothing (all fields are exported).
func checkTypes(r *repo) (found []violation) {
	seen := map[string]bool{}
	for _, p := range r.packages {
		types := typesOf(p)
		for _, name := range slices.Sorted(maps.Keys(types)) {
			subject := p.name + "." + name
			t := types[name].whole(types, map[string]bool{})
			methods, fields := len(t.methods), t.fields
			if t.data() {
				fields = 0
			}
			row, listed := large[subject]
			seen[subject] = true
			switch {
			case listed && methods <= maxMethods && fields <= maxFields:
				found = append(found, violation{subject, "keeps the limits: take it out of the list of large types"})
			case listed && (methods > max(row.methods, maxMethods) || fields > max(row.fields, maxFields)):
				found = append(found, violation{subject, fmt.Sprintf("has %d methods and %d fields, it had %d and %d: it must not grow, split it", methods, fields, row.methods, row.fields)})
			case !listed && methods > maxMethods:
				found = append(found, violation{subject, fmt.Sprintf("has %d methods, at most %d: split it by what it is responsible for", methods, maxMethods)})
			case !listed && fields > maxFields:
				found = append(found, violation{subject, fmt.Sprintf("has %d fields, at most %d: split it by what it is responsible for", fields, maxFields)})
			}
		}
	}
	for subject := range large {
		if !seen[subject] {
			found = append(found, violation{subject, "is listed as a large type but does not exist"})
		}
	}
	return found
}

// typeSize is what the declarations of one type hold.
type typeSize struct {
	methods  map[string]bool // true: has a pointer receiver
	fields   int
	hidden   bool     // some field is not exported
	embedded []string // by value, of the same package
}

// data reports whether a struct is one of those that may have many fields.
func (t *typeSize) data() bool {
	return len(t.methods) <= maxDataMethods || !t.hidden || !slices.Contains(slices.Collect(maps.Values(t.methods)), true)
}

// whole is a type with all that it embeds.
func (t *typeSize) whole(types map[string]*typeSize, seen map[string]bool) *typeSize {
	sum := &typeSize{methods: maps.Clone(t.methods), fields: t.fields, hidden: t.hidden}
	for _, name := range t.embedded {
		if e := types[name]; e != nil && !seen[name] {
			seen[name] = true
			e = e.whole(types, seen)
			maps.Copy(sum.methods, e.methods)
			sum.fields += e.fields
			sum.hidden = sum.hidden || e.hidden
		}
	}
	return sum
}

// typesOf are the types of a package's code by name. Files for several platforms repeat methods, which count once.
func typesOf(p *pkg) map[string]*typeSize {
	types := map[string]*typeSize{}
	get := func(name string) *typeSize {
		if types[name] == nil {
			types[name] = &typeSize{methods: map[string]bool{}}
		}
		return types[name]
	}
	for _, s := range p.files {
		if s.test || s.generated {
			continue
		}
		for _, decl := range s.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					_, pointer := d.Recv.List[0].Type.(*ast.StarExpr)
					get(receiver(d)).methods[d.Name.Name] = pointer
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						if st, ok := ts.Type.(*ast.StructType); ok {
							t := get(ts.Name.Name)
							t.fields = 0 // of another platform
							t.addFields(st)
						}
					}
				}
			}
		}
	}
	return types
}

func (t *typeSize) addFields(st *ast.StructType) {
	for _, f := range st.Fields.List {
		for _, name := range f.Names {
			t.hidden = t.hidden || !name.IsExported()
		}
		if inner, ok := f.Type.(*ast.StructType); ok {
			t.addFields(inner)
			continue
		}
		t.fields += max(1, len(f.Names))
		if len(f.Names) > 0 {
			continue
		}
		if name, ok := f.Type.(*ast.Ident); ok {
			t.embedded = append(t.embedded, name.Name)
		}
	}
}

// TestTypes shows what counts.
func TestTypes(t *testing.T) {
	t.Parallel()
	var wide, wideExported, methods, values strings.Builder
	for i := range maxFields + 1 {
		fmt.Fprintf(&wide, "f%d int\n", i)
		fmt.Fprintf(&wideExported, "F%d int\n", i)
	}
	for i := range maxMethods + 1 {
		fmt.Fprintf(&methods, "func (*t) m%d() {}\n", i)
		fmt.Fprintf(&values, "func (t) m%d() {}\n", i)
	}
	const change = "func (*t) a() {}\nfunc (*t) b() {}\nfunc (*t) c() {}\nfunc (*t) d() {}\n"
	for name, test := range map[string]struct {
		text string
		want string // empty: none
	}{
		"small":            {"type t struct { a int }\n" + change, ""},
		"fields":           {"type t struct {\n" + wide.String() + "}\n" + change, "has 16 fields"},
		"one line":         {"type t struct { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p int }\n" + change, "has 16 fields"},
		"few methods":      {"type t struct {\n" + wide.String() + "}\nfunc (*t) check() {}", ""},
		"values":           {"type t struct {\n" + wide.String() + "}\n" + strings.ReplaceAll(change, "*t", "t"), ""},
		"exported":         {"type t struct {\n" + wideExported.String() + "}\n" + change, ""},
		"embedded":         {"type t struct { in }\ntype in struct {\n" + wide.String() + "}\n" + change, "has 17 fields"},
		"embedded pointer": {"type t struct { *in }\ntype in struct {\n" + wide.String() + "}\n" + change, ""},
		"embedded data":    {"type t struct { in }\ntype in struct {\n" + wideExported.String() + "}\n" + change, ""},
		"no name":          {"type t struct { in struct {\n" + wide.String() + "} }\n" + change, "has 16 fields"},
		"methods":          {"type t int\n" + methods.String(), "has 31 methods"},
		"value methods":    {"type t int\n" + values.String(), "has 31 methods"},
		"generic":          {"type t[K any] struct {}\n" + strings.ReplaceAll(methods.String(), "*t", "*t[K]"), "has 31 methods"},
		"embedded methods": {"type t struct { in }\ntype in int\n" + strings.ReplaceAll(methods.String(), "*t", "*in") + change, "has 35 methods"},
	} {
		s, err := parse("p/a.go", []byte("package p\n"+test.text))
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, v := range checkTypes(&repo{packages: []*pkg{{name: "p", files: []*source{s}}}}) {
			if v.subject == "p.t" {
				got += v.message
			}
		}
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
