package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/text"
)

// foldersKey is the key of a policy with the folders of the host that jobs know by names.
const foldersKey = "folders"

// Use is what a job does with a folder, and what an owner gives it for.
type Use string

// The uses of folders.
const (
	Read  Use = "read"
	Write Use = "write" // and read
	// Runs has each run of a job write to a folder of its own in it, and see no other one.
	Runs Use = "runs"
)

// folder is one of the host's.
type folder struct {
	path string
	use  Use
	at   Source
}

// maxName bounds what is said of a folder's name, in bytes.
const maxName = 80

// Folder is one that a task asks for.
type Folder struct {
	Name string
	Use  Use
}

// entry is what a policy would have to have of it.
func (f Folder) entry() string {
	if f.Use == Read {
		return text.Clip(f.Name, maxName) + ": /PATH"
	}
	return fmt.Sprintf("%s: {path: /PATH, use: %s}", text.Clip(f.Name, maxName), f.Use)
}

// Path returns where the owner has a folder of a name; empty: nowhere.
func (p *Policy) Path(folder string) string { return p.folders[folder].path }

func (p *Policy) folderNames() (all []string) {
	for name := range p.folders {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// lacks returns the refusal of a request for a folder that the policy does not give so; nil: it gives all. Who asks does not learn where they are.
func (p *Policy) lacks(r Request) *Decision {
	for _, f := range r.Folders {
		has, there := p.folders[f.Name]
		d := &Decision{By: has.at}
		asks := fmt.Sprintf("it asks for volume %.80q", f.Name)
		of := path.Base(p.file)
		switch {
		case p.kind != written:
			d.By, d.Reason = Source{Text: "no policy names any " + foldersKey}, asks+", and this host has no policy that names folders"
			d.Remedy = fmt.Sprintf("start the host with a policy that has %s under %s", f.entry(), foldersKey)
		case !there:
			d.By, d.Reason = Source{File: p.file, Line: 1, Text: "no such folder"}, asks+", and this host has none of that name"
			d.Remedy = fmt.Sprintf("add %s to %s in %s", f.entry(), foldersKey, of)
			if near := suggest.Word(f.Name, p.folderNames()); near != "" {
				d.Remedy = fmt.Sprintf("did you mean %s? Else %s", near, d.Remedy)
			}
		case f.Use == Runs && has.use != Runs:
			d.Reason = asks + " as its work_dir, and this host does not give it for folders of runs"
			d.Remedy = fmt.Sprintf("give it use: %s under %s in %s", Runs, foldersKey, of)
		case f.Use != Runs && has.use == Runs:
			d.Reason = asks + ", which this host gives as a work_dir alone: runs see no folders of others"
			d.Remedy = fmt.Sprintf("name its path once more under %s in %s, by another name", foldersKey, of)
		case f.Use == Write && has.use != Write:
			d.Reason = asks + " to write to, and this host gives it to read alone"
			d.Remedy = fmt.Sprintf("leave :rw out in the job, or give it use: %s under %s in %s", Write, foldersKey, of)
		default:
			continue
		}
		return d
	}
	return nil
}

var folderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// named reads a mapping of names, each of which stands there once, and has each put what stands behind it. of is what a name is of, and form what such
// a mapping has.
func (r *reader) named(n *yaml.Node, key, of, form string, put func(k, v *yaml.Node)) {
	switch {
	case n.Kind != yaml.MappingNode:
		r.fail(n, "%s has names and %s", key, form)
		return
	case len(n.Content) > 2*maxEntries:
		r.fail(n, "%s has %d entries, at most %d", key, len(n.Content)/2, maxEntries)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode || !folderName.MatchString(k.Value):
			r.fail(k, "%.80q is no name of a %s: want 1 to 63 of A-Z a-z 0-9 _ . -, beginning with a letter or digit", k.Value, of)
		case seen[k.Value]:
			r.fail(k, "%s stands there twice", k.Value)
		default:
			seen[k.Value] = true
			put(k, v)
		}
	}
}

// folders reads the folders of a policy: NAME: PATH, or NAME: {path: PATH, use: USE}.
func (r *reader) folders(p *Policy, n *yaml.Node) {
	r.named(n, foldersKey, "folder", "paths, one a line: NAME: /PATH", func(k, v *yaml.Node) {
		f, ok := r.folder(v)
		if !ok {
			return
		}
		f.at = Source{File: r.file, Line: k.Line, Text: fmt.Sprintf("%s: %s: %s, use: %s", foldersKey, k.Value, f.path, f.use)}
		for _, name := range p.folderNames() {
			if other := p.folders[name]; apart(f, other) {
				r.fail(k, "%s lies in the folder of %s, or that one in it, and programs write there: they could exchange the inner one; name folders apart from each other", k.Value, name)
				return
			}
		}
		p.folders[k.Value] = f
	})
}

// apart reports whether two folders may not be as they are: who writes in one could put something else in the place of the other.
func apart(a, b folder) bool {
	writes := func(f folder) bool { return f.use != Read }
	switch {
	case a.path == b.path:
		return a.use == Runs && b.use == Write || a.use == Write && b.use == Runs
	case below([]string{a.path}, b.path), below([]string{b.path}, a.path):
		return writes(a) || writes(b)
	}
	return false
}

func (r *reader) folder(v *yaml.Node) (f folder, ok bool) {
	f.use = Read
	at := v
	if v.Kind == yaml.MappingNode {
		at = nil
		r.fields(v, "a folder", map[string]func(*yaml.Node){
			"path": func(n *yaml.Node) { at = n },
			"use":  func(n *yaml.Node) { f.use = Use(n.Value) },
		})
		if at == nil {
			r.fail(v, "it has no path: want path: /PATH")
			return f, false
		}
	}
	if f.path, ok = r.text(at); !ok {
		return f, false
	}
	switch {
	case len(f.path) > maxEntry:
		r.fail(at, "a path has %d bytes, at most %d", len(f.path), maxEntry)
	case checkPath(f.path) != nil:
		r.fail(at, "%s", checkPath(f.path))
	case f.path == "/" || strings.Contains(f.path, ":"):
		r.fail(at, "%.80q: want a directory below / whose name has no colon, which engines can't bind", f.path)
	case !slices.Contains([]Use{Read, Write, Runs}, f.use):
		r.fail(v, "use is %.40q: want %s, %s or %s", string(f.use), Read, Write, Runs)
	default:
		return f, true
	}
	return f, false
}
