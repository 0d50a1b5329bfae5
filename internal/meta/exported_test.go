package meta

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// checkExported finds exported functions, types, constants and variables that only tests use: what a test needs of a package it gets from
// what others need of it, or from inside. Methods do not count, as interfaces may call for them.
func checkExported(r *repo) (found []violation) {
	used := map[string]bool{} // PACKAGE.NAME
	for _, p := range r.packages {
		if slices.Contains(testOnly, p.name) {
			continue
		}
		for _, s := range p.files {
			if !s.test {
				noteUses(r, p, s, used)
			}
		}
	}
	for _, p := range r.packages {
		if slices.Contains(testOnly, p.name) {
			continue
		}
		for _, s := range p.files {
			if s.test || s.generated {
				continue
			}
			for _, name := range exported(s.ast) {
				if !used[p.name+"."+name.Name] {
					found = append(found, violation{p.name + "." + name.Name, "is exported and no code but tests uses it: unexport it, or take it out"})
				}
			}
		}
	}
	return found
}

// exported are the exported names that a file declares.
func exported(f *ast.File) (names []*ast.Ident) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, id)
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					add(spec.Names...)
				}
			}
		}
	}
	return names
}

// noteUses notes which names of which packages a file uses, those of its own package among them.
func noteUses(r *repo, p *pkg, s *source, used map[string]bool) {
	from := map[string]string{} // by the name that the file has for it: the package
	for _, spec := range s.ast.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !strings.HasPrefix(path, module+"/") {
			continue
		}
		path = strings.TrimPrefix(path, module+"/")
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		} else if i := slices.IndexFunc(r.packages, func(o *pkg) bool { return o.name == path }); i >= 0 && len(r.packages[i].files) > 0 {
			name = r.packages[i].files[0].ast.Name.Name
		}
		from[name] = path
	}
	declared := exported(s.ast)
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && from[x.Name] != "" {
				used[from[x.Name]+"."+n.Sel.Name] = true
				return false
			}
		case *ast.Ident:
			if !slices.Contains(declared, n) {
				used[p.name+"."+n.Name] = true
			}
		}
		return true
	})
}
