package adsfile

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// runtimes are those of ADS that are read, with what each has beside what all have.
var runtimes = map[string]struct {
	names []string
	read  func(*reader, *fields)
}{
	"container":          {[]string{"image", "imageDigest", "imageSignature", "entrypoint", "cmd"}, containerRuntime},
	"python":             {[]string{"scriptPathURI", "entryPoint", "workingDir", "pythonPath", "image", "outputDir", "outputUri", "overwrite"}, pythonRuntime},
	"script":             {[]string{"scriptPathURI", "entryPoint", "image"}, scriptRuntime},
	"gitPython":          {[]string{"url", "branch", "commit", "gitSecretId", "entryPoint", "entryFunction", "codeDir", "workingDir", "pythonPath", "image", "outputDir", "outputUri", "overwrite", "skipMetadataUpdate"}, gitRuntime},
	"notebook":           {[]string{"notebookPathURI", "notebookEncoding", "excludeTags", "entryPoint", "source", "image", "outputUri", "outputDir", "overwrite"}, notebookRuntime},
	"pyTorchDistributed": {[]string{"command", "git", "source", "scriptPathURI", "entryPoint", "inputs", "outputDir", "outputUri", "dependencies", "deepspeed", "workingDir", "pythonPath", "image", "overwrite"}, torchRuntime},
}

// commonRuntime are fields of every runtime.
var commonRuntime = []string{"args", "env", "conda", "replicas", "maximumRuntimeInMinutes", "tag", "tags", "freeformTags", "freeformTag", "definedTags", "definedTag", "compartmentId", "projectId", "probe"}

// readJob reads a job of ADS.
func readJob(r *reader, f *fields) {
	spec := r.fields(f.Get("spec", yamlfile.Broken), "id", "name", "infrastructure", "runtime")
	if spec == nil {
		return
	}
	r.name(spec.Get("name", 0))
	spec.ignore("the swarm gives each run an ID", "id")
	j := r.job
	j.Resources, j.Volumes = r.infrastructure(spec.Get("infrastructure", 0))
	outer := r.fields(spec.Get("runtime", yamlfile.Broken), "kind", "type", "apiVersion", "spec")
	if outer == nil {
		return
	}
	kind := outer.Get("type", yamlfile.Broken)
	of, is := runtimes[text(kind)]
	if !is {
		if outer.Has("type") {
			kind.Find(yamlfile.Broken, "%s %q is not known%s", kind.Name, yamlfile.Excerpt(text(kind)), yamlfile.Meant(text(kind), []string{"container", "python", "script", "gitPython", "notebook", "pyTorchDistributed"}))
		}
		return
	}
	rt := r.fields(outer.Get("spec", yamlfile.Broken), slices.Concat(commonRuntime, of.names)...)
	if rt == nil {
		return
	}
	r.common(rt)
	if of.read(r, rt); r.Broken() {
		return
	}
	if r.seed(rt.Of, nil) || r.Broken() {
		return
	}
	var sets []string
	if j.Framework == jobfile.PyTorch {
		sets = slices.Concat(frameworkVars["PYTORCH"], nodeVars)
	}
	j.Env = r.filled(rt.Of, ofFile(r.vars, sets))
}

// common reads what all runtimes have.
func (r *reader) common(f *fields) {
	j := r.job
	r.vars = r.variables(f.Get("env", 0))
	j.Replicas = 1
	if n, ok := f.Get("replicas", 0).Number(1, jobfile.MaxMembers); ok {
		j.Replicas = n
	}
	r.minutes(f, "maximumRuntimeInMinutes")
	f.ignore(noTags, "tag", "tags", "freeformTags", "freeformTag", "definedTags", "definedTag")
	f.ignore(noTenancy, "compartmentId", "projectId")
	f.ignore("no member is asked by it: a job file has ready", "probe")
	if r.image != "" {
		f.ignore("members run in the image that --image names", "conda")
	} else {
		f.ignore("there are no conda packs: members are processes of their hosts, with their Python, or have the image that --image names", "conda")
	}
	j.Image = r.image
	if f.given("image") {
		j.Image = r.imageOf(f.Get("image", 0))
	}
	if j.Image == "" && len(j.Volumes) > 0 {
		f.Of.Find(yamlfile.Broken, "the job has storageMount, and its members would be processes of their hosts, where nothing is mounted: name an image with --image NAME")
	}
	if j.Image == "" && j.Resources.GPU == 0 {
		j.Resources = jobfile.Resources{}
	}
}

// minutes takes how long a job runs at most.
func (r *reader) minutes(f *fields, name string) {
	v := f.Get(name, 0)
	if n, ok := v.Number(1, int(jobfile.MaxTimeout.Minutes())); ok {
		r.job.Timeout = time.Duration(n) * time.Minute
	}
}

func containerRuntime(r *reader, f *fields) {
	j := r.job
	if j.Image == "" {
		f.Of.Find(yamlfile.Broken, "%s.image is missing: write the name of the image", f.Of.Name)
	}
	r.digest(f, "imageDigest", &j.Image)
	f.ignore("hosts' policies say which images they run, by digest", "imageSignature")
	j.Command = commandWords(f.Get("entrypoint", 0))
	j.Args = slices.Concat(r.cmd(f.Get("cmd", 0), j.Command), commandWords(f.Get("args", 0)))
}

// cmd are the words of an image's command. One text for a shell stays one.
func (r *reader) cmd(v yamlfile.Value, entrypoint []string) []string {
	if n := len(entrypoint); !v.Null() && v.Kind() != "a list" && n > 0 && strings.HasPrefix(entrypoint[n-1], "-") && strings.HasSuffix(entrypoint[n-1], "c") {
		return checked(v, []string{lines(v)})
	}
	return commandWords(v)
}

// digest names an image by its digest.
func (r *reader) digest(f *fields, name string, image *string) {
	s := text(f.Get(name, 0))
	if s == "" || *image == "" || r.image != "" {
		return
	}
	if !strings.HasPrefix(s, "sha256:") || len(s) != len("sha256:")+64 {
		f.refuse(name, "is %q: write sha256: and 64 digits", yamlfile.Excerpt(s))
		return
	}
	repository, _, _ := strings.Cut(*image, "@")
	if slash := strings.LastIndexByte(repository, '/'); strings.Contains(repository[slash+1:], ":") {
		repository = repository[:strings.LastIndexByte(repository, ':')]
	}
	*image = repository + "@" + s
}

// script takes the file or folder of a program that travels with the job, and returns the file, as the members' working directory has it.
func (r *reader) script(f *fields, uri string) string {
	s := text(f.Get(uri, yamlfile.Broken))
	if !r.source(f, uri) || r.Broken() {
		return ""
	}
	switch ext := path.Ext(r.job.Folder); {
	case ext == ".zip", ext == ".gz", ext == ".tar", ext == ".tgz":
		f.refuse(uri, "is %q: unpack it into a folder, and write that", yamlfile.Excerpt(s))
	case programFile(s):
		r.only = path.Base(r.job.Folder)
		r.job.Folder = path.Dir(r.job.Folder)
		return r.only
	case !f.given("entryPoint"):
		f.refuse(uri, "is a folder: write which of its files is to run, as entrypoint")
		return ""
	}
	if uri != "url" {
		fromFolder(r, f, uri)
	}
	return runsFile(r, f)
}

// programFile reports whether a place is one file, and no folder.
func programFile(place string) bool { return slices.Contains([]string{".py", ".sh"}, path.Ext(place)) }

// fromFolder takes how a folder that travels is called: ADS runs programs in the folder that has it, unless workingDir says another.
func fromFolder(r *reader, f *fields, uri string) {
	if !r.Broken() && !f.given("workingDir") {
		r.base = path.Base(r.job.Folder)
		f.note(uri, "is the working directory of each member, not the folder that has it")
	}
}

// runsFile takes which file of a folder is to run.
func runsFile(r *reader, f *fields) string {
	const name = "entryPoint"
	s := text(f.Get(name, 0))
	file := r.inSource(s)
	if file == ".." || path.IsAbs(file) || strings.HasPrefix(file, "../") {
		f.refuse(name, "is %q: write which of the files in the folder that travels is to run", yamlfile.Excerpt(s))
	}
	r.entry, r.entryLine = file, f.lines[name]
	return file
}

// inSource is a path as the members' working directory has it: ADS also has it begin with the name of the folder that travels.
func (r *reader) inSource(p string) string {
	p = path.Clean(p)
	switch r.base {
	case "":
		return p
	case p:
		return "."
	}
	return strings.TrimPrefix(p, r.base+"/")
}

// runs takes a program that travels with the job.
func (r *reader) runs(f *fields, file string) {
	j := r.job
	j.Command, j.Args = interpreter(file), commandWords(f.Get("args", 0))
	if j.Image == "" && j.Command[0] == "bash" { // a host runs files of the source alone
		j.Command = []string{file}
	}
}

func pythonRuntime(r *reader, f *fields) {
	file := r.script(f, "scriptPathURI")
	r.inFolder(f)
	r.outputs(f)
	r.runs(f, file)
}

func scriptRuntime(r *reader, f *fields) { r.runs(f, r.script(f, "scriptPathURI")) }

// inFolder takes where the program looks for others.
func (r *reader) inFolder(f *fields) {
	if at := path.Clean(text(f.Get("workingDir", 0))); f.given("workingDir") && at != "." && at != path.Base(r.job.Folder) {
		f.refuse("workingDir", "is %q: the working directory is the folder that travels with the job: write that folder, or change to it in the program", yamlfile.Excerpt(text(f.Get("workingDir", 0))))
	}
	if !f.given("pythonPath") {
		return
	}
	if r.job.Image == "" {
		f.refuse("pythonPath", "can't be set for processes of hosts: put those modules beside the program, or name an image with --image NAME")
		return
	}
	r.vars = append(r.vars, variable{jobfile.Var{Name: "PYTHONPATH", Value: strings.Join(sourcePaths(r, f.Get("pythonPath", 0)), ":")}, f.Get("pythonPath", 0)})
}

// outputs takes where the program leaves what is to be kept.
func (r *reader) outputs(f *fields) {
	dir := text(f.Get("outputDir", 0))
	if !f.given("outputDir") && !f.given("outputUri") {
		return
	}
	a := jobfile.Artifacts{Dir: syncDir, Every: jobfile.DefaultEvery}
	if path.IsAbs(dir) {
		a.Dir = path.Clean(dir)
	} else if dir != "" {
		f.note("outputDir", "is not copied: have the program write to the folder in the variable SWARM_ARTIFACTS, of which hosts keep what is in it")
	}
	r.job.Artifacts = a
	f.ignore("artifacts stay on their hosts for swarmctl get artifacts; a job file's artifacts.to has them copied to a target of the hosts", "outputUri")
	f.ignore("each run has a folder of its own", "overwrite")
}

func gitRuntime(r *reader, f *fields) {
	if f.given("entryFunction") {
		f.refuse("entryFunction", "is %q: members run files: write one that calls it, as entryPoint", yamlfile.Excerpt(text(f.Get("entryFunction", 0))))
	}
	file := r.script(f, "url")
	f.ignore("the folder travels as it is now: check out what is to run", "branch", "commit", "gitSecretId")
	f.ignore("the folder travels with the job, and is the working directory of each member", "codeDir")
	f.ignore("nothing is written to runs", "skipMetadataUpdate")
	r.inFolder(f)
	r.outputs(f)
	r.runs(f, file)
}

func notebookRuntime(_ *reader, f *fields) {
	s := text(f.Get("notebookPathURI", 0))
	if s == "" {
		s = text(f.Get("source", 0))
	}
	f.Of.Find(yamlfile.Broken, "notebook %s can't be run: make a program of it with jupyter nbconvert --to script, and write it as type: python with scriptPathURI", yamlfile.Excerpt(s))
}
