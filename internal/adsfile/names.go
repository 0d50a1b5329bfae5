package adsfile

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// dashed is a text as a name of at most so many characters; empty: it has none that a name may have.
func dashed(s string, most int) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(s), "-"), "-")
	return strings.Trim(name[:min(len(name), most)], "-")
}

// jobNamed is a text as a job's name.
func jobNamed(s string) string {
	if name := dashed(s, 63); name != "" {
		return name
	}
	return "job"
}

// name takes the job's name, if it has none yet.
func (r *reader) name(v yamlfile.Value) {
	s := text(v)
	switch {
	case s == "":
		return
	case r.job.Name != "":
		v.Find(yamlfile.Noted, "%s is ignored: the job is called %s", v.Name, r.job.Name)
		return
	}
	if r.job.Name = jobNamed(s); r.job.Name != s {
		v.Find(yamlfile.Noted, "%s %q becomes %s", v.Name, yamlfile.Excerpt(s), r.job.Name)
	}
}

// group is a name of a group of nodes as a job has it.
func group(v yamlfile.Value) string {
	s := text(v)
	name := dashed(s, 31)
	switch {
	case name == "":
		v.Find(yamlfile.Broken, "%s is %q: write a name of letters and digits", v.Name, yamlfile.Excerpt(s))
	case name != s:
		v.Find(yamlfile.Noted, "%s %q becomes %s, also as NodeGroupName in the file that names all members", v.Name, yamlfile.Excerpt(s), name)
	}
	return name
}

var notInVolumes = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// volume is the name of a volume that stands for a place: its bucket, or the last of its folders.
func volume(place string) string {
	scheme, rest, isURI := strings.Cut(place, "://")
	name := strings.Trim(rest, "/")
	switch {
	case isURI && scheme != "file": // oci://BUCKET@NAMESPACE/PREFIX, s3://BUCKET/PREFIX
		name, _, _ = strings.Cut(name, "/")
		name, _, _ = strings.Cut(name, "@")
	case isURI:
		name = path.Base(name)
	default:
		name = path.Base(strings.TrimRight(place, "/"))
	}
	name = strings.Trim(notInVolumes.ReplaceAllString(name, "-"), "-_.")
	return name[:min(len(name), 63)]
}

// prefixedPlace reports whether a place is below a bucket, of which its volume's name says nothing.
func prefixedPlace(place string) bool {
	scheme, rest, isURI := strings.Cut(place, "://")
	_, prefix, _ := strings.Cut(strings.Trim(rest, "/"), "/")
	return isURI && scheme != "file" && prefix != ""
}

// workDir takes where a cluster meets.
func (r *reader) workDir(v yamlfile.Value) {
	s := text(v)
	if s == "" {
		return
	}
	if r.job.WorkDir = volume(s); r.job.WorkDir == "" {
		v.Find(yamlfile.Broken, "%s is %q: write where it is, as oci://bucket@namespace/prefix or /folder", v.Name, yamlfile.Excerpt(s))
		return
	}
	v.Find(yamlfile.Noted, "%s %s becomes work_dir: %s: each host's policy says under folders which folder that is, with use: runs; members find it as WORK_DIR", v.Name, yamlfile.Excerpt(s), r.job.WorkDir)
}

// gpus is how many GPUs a shape of Oracle's machines has: VM.GPU2.1, BM.GPU.A100-v2.8.
func gpus(shape string) int {
	parts := strings.Split(strings.ToUpper(shape), ".")
	if !strings.Contains(strings.ToUpper(shape), "GPU") {
		return 0
	}
	n, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || n < 1 || n > 64 {
		return 1
	}
	return n
}

// local reports whether a place is a folder of this machine, and which.
func local(place string) (string, bool) {
	if rest, is := strings.CutPrefix(place, "file://"); is {
		return rest, rest != ""
	}
	return place, place != "" && !strings.Contains(place, "://") && !strings.HasPrefix(place, "git@")
}
