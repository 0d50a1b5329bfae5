package meta

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
)

const (
	maxFile     = 600
	maxTestFile = 1200
	maxPackage  = 4000
	maxNode     = 900 // of package node, which composes what others do
)

// wellKnown are methods whose name says all: an interface of the standard library documents them.
var wellKnown = []string{
	"Error", "String", "Unwrap", "Read", "Write", "ReadAt", "WriteAt", "ServeHTTP", "Len", "Less", "Swap",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText",
}

// checkSizes limits files and packages: what outgrows them holds more than one idea.
func checkSizes(r *repo) (found []violation) {
	for _, p := range r.packages {
		total := 0
		for _, s := range p.files {
			if s.generated {
				continue
			}
			limit := maxFile
			if s.test {
				limit = maxTestFile
			} else {
				total += s.lines
			}
			if s.lines > limit {
				found = append(found, violation{s.path, fmt.Sprintf("has %d lines, at most %d: divide it", s.lines, limit)})
			}
		}
		if p.name == "node" && total > maxNode {
			found = append(found, violation{p.name, fmt.Sprintf("has %d lines without tests, at most %d: what it does beside composing belongs in the parts", total, maxNode)})
		}
		if total > maxPackage {
			found = append(found, violation{p.name, fmt.Sprintf("has %d lines without tests, at most %d: divide it", total, maxPackage)})
		}
	}
	return found
}

// checkDocs wants a comment on every package and every exported symbol.
func checkDocs(r *repo) (found []violation) {
	for _, p := range r.packages {
		documented, code := false, false
		for _, s := range p.files {
			if s.test {
				continue
			}
			code = true
			documented = documented || s.ast.Doc != nil || s.generated
			if s.generated || s.ast.Name.Name == "main" {
				continue
			}
			for _, name := range undocumented(s.ast) {
				found = append(found, violation{s.path + ":" + name, "is exported and has no comment"})
			}
		}
		if code && !documented {
			found = append(found, violation{p.name, "has no package comment"})
		}
	}
	return found
}

// undocumented lists exported names without a comment. A comment on a group of constants or variables covers the group.
func undocumented(f *ast.File) (names []string) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil || !d.Name.IsExported() {
				continue
			}
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			} else if owner := receiver(d); ast.IsExported(owner) && !slices.Contains(wellKnown, d.Name.Name) {
				names = append(names, owner+"."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, undocumentedSpec(d, spec)...)
			}
		}
	}
	return names
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		if d.Doc != nil || s.Doc != nil || s.Comment != nil {
			return nil
		}
		for _, n := range s.Names {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// receiver is the name of a method's type, without pointer and type parameters.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// bubbles are packages that run tests in virtual time: testing/synctest, and nodetest.Run, which wraps it.
var bubbles = []string{"testing/synctest", module + "/node/nodetest"}

// checkSleep keeps real waiting out of tests; in a bubble of testing/synctest a sleep takes no time.
func checkSleep(r *repo) (found []violation) {
	for _, p := range r.packages {
		for _, s := range p.files {
			if !s.test || slices.ContainsFunc(bubbles, func(b string) bool { return importName(s.ast, b) != "" }) {
				continue
			}
			timeName := importName(s.ast, "time")
			ast.Inspect(s.ast, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
					if x, ok := sel.X.(*ast.Ident); ok && timeName != "" && x.Name == timeName {
						found = append(found, violation{s.path, "sleeps: wait for the condition, or use testing/synctest"})
						return false
					}
				}
				return true
			})
		}
	}
	return found
}

// importName is the name by which a file knows an imported package; empty if it does not import it.
func importName(f *ast.File, importPath string) string {
	for _, spec := range f.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		for i := len(importPath) - 1; i >= 0; i-- {
			if importPath[i] == '/' {
				return importPath[i+1:]
			}
		}
		return importPath
	}
	return ""
}

// checkInit forbids init functions: importing a package must do nothing.
func checkInit(r *repo) (found []violation) {
	for _, p := range r.packages {
		for _, s := range p.files {
			if s.generated {
				continue
			}
			for _, decl := range s.ast.Decls {
				if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" && d.Name.Pos() != token.NoPos {
					found = append(found, violation{s.path, "has an init function: let the caller call it"})
				}
			}
		}
	}
	return found
}
