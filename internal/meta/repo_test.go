package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/swarmd/swarmd"

// repo is what the rules look at: the module's packages, parsed, and its other files by slash-separated path.
type repo struct {
	packages []*pkg
	files    map[string]file
}

// file is a file that is not Go source of the module.
type file struct {
	text       string
	executable bool
}

// pkg is one package; its name is the import path without the module's.
type pkg struct {
	name    string
	imports []string // of the code, not of its tests; the module's own without its path
	files   []*source
}

// source is one parsed Go file.
type source struct {
	path      string // from the root of the repository
	lines     int
	test      bool
	generated bool
	ast       *ast.File
}

// load reads the repository that this test is part of.
func load(t *testing.T) *repo {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &repo{files: map[string]file{}}
	for _, listed := range goList(t, root) {
		p := &pkg{name: strings.TrimPrefix(listed.ImportPath, module+"/")}
		for _, name := range listed.Imports {
			p.imports = append(p.imports, strings.TrimPrefix(name, module+"/"))
		}
		for _, name := range listed.sources() {
			full := filepath.Join(listed.Dir, name)
			text, err := os.ReadFile(full)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, full)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parse(filepath.ToSlash(rel), text)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, s)
		}
		r.packages = append(r.packages, p)
	}
	readFiles(t, root, r.files)
	return r
}

type listed struct {
	ImportPath, Dir                                              string
	Imports                                                      []string
	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
}

func (l listed) sources() []string {
	var all []string
	for _, names := range [][]string{l.GoFiles, l.CgoFiles, l.IgnoredGoFiles, l.TestGoFiles, l.XTestGoFiles} {
		all = append(all, names...)
	}
	return all
}

// goList asks the go command, which knows build tags and modules. -e keeps a package that does not build in the list:
// that it does not build is for the compiler to say.
func goList(t *testing.T, root string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e",
		"-json=ImportPath,Dir,Imports,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var one listed
		if err := dec.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		all = append(all, one)
	}
}

// parse reads one file as the rules want it.
func parse(name string, text []byte) (*source, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &source{
		path:      name,
		lines:     bytes.Count(text, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(parsed),
		ast:       parsed,
	}, nil
}

// readFiles reads the documents and scripts of the repository, not what was built in it.
func readFiles(t *testing.T, root string, into map[string]file) {
	t.Helper()
	skip := map[string]bool{".git": true, "bin": true, "out": true, "dist": true, "testdata": true}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // somebody's temporary file, gone meanwhile
			}
			return err
		}
		if d.IsDir() {
			// Caches are dot directories; of those only .ci is ours.
			hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci"
			if name != root && (skip[d.Name()] || hidden || d.Name() == "__pycache__") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !wanted(rel) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		into[rel] = file{text: string(text), executable: info.Mode()&0o111 != 0}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wanted says whether some rule looks at a file; documents link to what is in deploy.
func wanted(name string) bool {
	return path.Ext(name) == ".md" || path.Ext(name) == ".svg" || path.Ext(name) == ".png" || strings.HasPrefix(name, "docs/") && path.Ext(name) == ".yaml" || name == "Makefile" || isScript(name) || strings.HasPrefix(name, "deploy/")
}

// isScript says whether a file is one that make, CI or a user runs by name.
func isScript(name string) bool {
	dir, base := path.Split(name)
	switch dir {
	case "scripts/", ".ci/":
		return !strings.HasPrefix(base, ".") && path.Ext(base) != ".md"
	}
	return path.Ext(base) == ".sh"
}

func (r *repo) has(name string) bool {
	for _, p := range r.packages {
		if p.name == name {
			return true
		}
	}
	return false
}

// dir says whether some document or package lies in a directory.
func (r *repo) dir(name string) bool {
	name = strings.TrimSuffix(name, "/") + "/"
	for other := range r.files {
		if strings.HasPrefix(other, name) {
			return true
		}
	}
	for _, p := range r.packages {
		if strings.HasPrefix(p.name+"/", name) {
			return true
		}
	}
	return false
}
