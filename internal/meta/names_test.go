package meta

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// maxSameName is how many packages may have functions of one name: the third has copied one that belongs in a package of its own, or
// has a name that says too little.
const maxSameName = 2

// checkNames finds functions of one name in more packages. Methods do not count, nor do tests and packages for tests.
func checkNames(r *repo) (found []violation) {
	where := map[string][]string{} // by function: packages
	for _, p := range r.packages {
		if slices.Contains(testOnly, p.name) {
			continue
		}
		for _, name := range functions(p) {
			where[name] = append(where[name], p.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(where)) {
		if in := where[name]; len(in) > maxSameName {
			found = append(found, violation{name, fmt.Sprintf("is a function in %d packages, at most %d: let them share it, or give it a name that says more: %s",
				len(in), maxSameName, strings.Join(in, ", "))})
		}
	}
	return found
}

// functions are the names of a package's functions, each once: files for several platforms repeat them.
func functions(p *pkg) []string {
	names := map[string]bool{}
	for _, s := range p.files {
		if s.test || s.generated {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
