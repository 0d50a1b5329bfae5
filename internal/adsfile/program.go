package adsfile

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

var imageForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$`)

// Where the program is in images that ads opctl builds, and where members find the files that travel with a job.
const (
	codeDir   = "/code"
	sourceDir = "/run/swarm/source"
)

// program is what members run.
type program struct {
	command []string // empty: the image's own
	args    []string
	env     []jobfile.Var
}

// clusterProgram reads the program of a cluster: in its image, or in a folder beside the file.
func clusterProgram(r *reader, v yamlfile.Value) (p program) {
	outer := r.fields(v, "kind", "apiVersion", "type", "spec", "name")
	if outer == nil {
		return p
	}
	if kind := text(outer.Get("kind", 0)); kind != "" && kind != "python" {
		outer.refuse("kind", "is %q: a cluster's runtime is read with kind: python", yamlfile.Excerpt(kind))
	}
	f := r.fields(outer.Get("spec", 0), "type", "entryPoint", "args", "kwargs", "env", "uri", "branch", "commit", "gitSecretId", "codeDir", "pythonPath", "name")
	if f == nil {
		return p
	}
	p.env = r.environment(r.variables(f.Get("env", 0)))
	at := text(f.Get("codeDir", 0))
	if at == "" {
		at = codeDir
	}
	if r.source(f, "uri") {
		if f.given("codeDir") {
			f.note("codeDir", "is %s: the folder travels with the job, and is the working directory of each member", sourceDir)
		}
		f.ignore("the folder travels as it is now: check out what is to run", "branch", "commit", "gitSecretId")
		r.entry, r.entryLine = entryPoint(&p, f, "", at), f.lines["entryPoint"]
		p.env = with(p.env, "PYTHONPATH", strings.Join(append([]string{sourceDir}, belowDir(sourceDir, f.Get("pythonPath", 0))...), ":"))
		return p
	}
	f.ignore("the program is in the image", "branch", "commit", "gitSecretId")
	entryPoint(&p, f, at, at)
	p.env = with(p.env, "PYTHONPATH", strings.Join(append([]string{at}, belowDir(at, f.Get("pythonPath", 0))...), ":"))
	p.env = with(p.env, "OCI__CODE_DIR", text(f.Get("codeDir", 0)))
	return p
}

// belowDir are the paths of a list below a folder.
func belowDir(dir string, v yamlfile.Value) (all []string) {
	if !v.Null() && v.Kind() != "a list" {
		all = strings.Split(text(v), ":")
	} else {
		for _, item := range v.List() {
			all = append(all, text(item))
		}
	}
	for i, p := range all {
		if !path.IsAbs(p) {
			all[i] = path.Join(dir, p)
		}
	}
	return all
}

// sourcePaths are those of a list in the folder that travels with the job.
func sourcePaths(r *reader, v yamlfile.Value) (all []string) {
	for _, p := range belowDir("", v) {
		if !path.IsAbs(p) {
			p = path.Join(sourceDir, r.inSource(p))
		}
		all = append(all, p)
	}
	return all
}

// source takes the folder of the program if it is one of this machine, and reports that. What is elsewhere is fetched by nobody.
func (r *reader) source(f *fields, name string) bool {
	if !f.given(name) {
		return false
	}
	s := text(f.Get(name, 0))
	folder, is := local(s)
	if !is {
		without := "an image and write the job as type: container"
		if name == "uri" {
			without = "the image and leave uri out"
		}
		f.refuse(name, "is %q, and hosts fetch no program: fetch it into a folder beside this file and write that folder, or have it in %s", yamlfile.Excerpt(s), without)
		return true
	}
	r.job.Folder = strings.TrimSuffix(folder, "/")
	return true
}

// entryPoint makes the program's command: a file in a folder, with arguments and what ADS calls kwargs, which come behind them. code is the folder by which
// the file may call it.
func entryPoint(p *program, f *fields, dir, code string) string {
	script := text(f.Get("entryPoint", 0))
	args, kwargs := arguments(f.Get("args", 0)), arguments(f.Get("kwargs", 0))
	if script == "" {
		if len(args)+len(kwargs) > 0 {
			f.Of.Find(yamlfile.Broken, "%s.entryPoint is missing, and there are args: write the file that takes them", f.Of.Name)
		}
		return ""
	}
	p.env = with(p.env, "OCI__ENTRY_SCRIPT", script)
	for _, v := range []jobfile.Var{
		{Name: "OCI__ENTRY_SCRIPT_ARGS", Value: literal(shellwords.Join(args))}, {Name: "OCI__ENTRY_SCRIPT_KWARGS", Value: literal(shellwords.Join(kwargs))},
	} {
		if _, is := lookup(p.env, v.Name); !is && len(args)+len(kwargs) > 0 { // of words that have no variable of their own, all would be args
			p.env = jobfile.WithVars(p.env, []jobfile.Var{v})
		}
	}
	file := script
	if dir == "" {
		if file = path.Clean(strings.TrimPrefix(script, strings.TrimSuffix(code, "/")+"/")); path.IsAbs(file) || file == ".." || strings.HasPrefix(file, "../") {
			f.refuse("entryPoint", "is %q, and the program is in the folder that travels: write the path of a file in it", yamlfile.Excerpt(script))
		}
	} else if !path.IsAbs(script) {
		file = path.Join(dir, script)
	}
	p.command, p.args = interpreter(file), slices.Concat(args, kwargs)
	return file
}

// literal is a text in which no variable is filled in: words are, where they are run.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// interpreter is a file with what runs it.
func interpreter(file string) []string {
	if path.Ext(file) == ".sh" {
		return []string{"bash", file}
	}
	return []string{"python3", file}
}
