package swop_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// jobOf is a job's task, and what a host sees of it that has its first member.
func jobOf(t *testing.T, file string) (*task.Hosted, *task.Task) {
	t.Helper()
	j, err := jobfile.Read("f", []byte("name: x\n"+file+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		t.Fatal(err)
	}
	body, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	h := &task.Hosted{Request: jobrequest.Request(w), Members: []task.HostedMember{{Group: w.Groups[0].Name}}}
	h.Hosts = []string{"swop-1"}
	return h, &task.Task{Name: "x.1", Type: task.RunJob, Definition: body}
}

// TestFoldersOfJobs: a job gets the folders that the host's policy has under the names of its volumes, where they are there and nothing of the host's own
// is in them. Who asks learns their names alone.
func TestFoldersOfJobs(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(os.MkdirAll(at("data"), 0o700), os.Mkdir(at("out"), 0o700), os.Mkdir(at("runs"), 0o700), os.MkdirAll(at("state/of/swop"), 0o700), os.Symlink(at("data"), at("link")), os.WriteFile(at("file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	text := "sentences:\n- Allow " + ann + " to use host\nfolders: {data: " + at("data") + ", out: {path: " + at("out") + ", use: write}, link: " + at("link") + ", behind: " + at("link/x") +
		", none: " + at("none") + ", file: " + at("file") + ", own: " + at("state") + ", runs: {path: " + at("runs") + ", use: runs}}\n"
	p, err := policy.Parse("p.yaml", []byte(text), "a.example")
	if err != nil {
		t.Fatal(err)
	}
	image := &policy.Image{Name: "i:1", ID: "sha256:" + strings.Repeat("a", 64)}
	o := swop.Owner{Policy: p, SwarmID: func() string { return "s" }, Recent: hostpaths.NewHere(), Place: swop.Place{Profile: &taskfile.Profile{}, Paths: hostpaths.NewHere(), Own: []string{at("state/of/swop")}}}
	for volumes, want := range map[string]string{
		"[data:/a, out:/b:rw]": "",
		"[out:/b]":             "",
		"[data:/a:rw]":         `it asks for volume "data" to write to, and this host gives it to read alone`,
		"[scratch:/a]":         `it asks for volume "scratch", and this host has none of that name; add scratch: /PATH to folders in p.yaml`,
		"[data:/a, link:/b]":   `it asks for volume "link", and its folder on this host can't be given: there is a symbolic link on the way to it`,
		"[behind:/b]":          `volume "behind", and its folder on this host can't be given: it does not exist`,
		"[none:/b]":            `volume "none", and its folder on this host can't be given: it does not exist; correct folders in this host's policy`,
		"[file:/b]":            `volume "file", and its folder on this host can't be given: it is no directory`,
		"[own:/b]":             `volume "own", and its folder on this host can't be given: there is what this host keeps for itself`,
	} {
		h, the := jobOf(t, "image: i:1\nvolumes: "+volumes)
		v := o.Decide(t.Context(), ann, h, the, image)
		if allowed := v.Decision == consent.Allowed; allowed != (want == "") || !allowed && (!strings.Contains(v.Sentence, want) || strings.Contains(v.Sentence, root)) {
			t.Errorf("%s: %+v, want %q", volumes, v, want)
		}
		g, v := o.Grant(t.Context(), the)
		if want == "" && (v.Decision != consent.Allowed || g.Folders["out"] != at("out")) {
			t.Errorf("%s: granted %+v, %+v", volumes, g, v)
		}
		if strings.Contains(want, "can't be given") && (v.Decision != consent.Refused || len(g.Folders) > 0) {
			t.Errorf("%s: granted just before it is bound: %+v, %+v", volumes, g, v)
		}
	}
	h, the := jobOf(t, "image: i:1\nvolumes: [data:/a]")
	for line, want := range map[string]string{"work_dir: runs": "", "work_dir: out": `volume "out" as its work_dir, and this host does not give it for folders of runs`, "work_dir: nowhere": `add nowhere: {path: /PATH, use: runs} to folders in p.yaml`} {
		o.Process = true
		h, the := jobOf(t, "command: python3 -m a\n"+line)
		if v := o.Decide(t.Context(), ann, h, the, nil); (v.Decision == consent.Allowed) != (want == "") || want != "" && !strings.Contains(v.Sentence, want) {
			t.Errorf("%s: %+v, want %q", line, v, want)
		}
		o.Process, o.Afar = false, true
		h, the = jobOf(t, "image: i:1\n"+line)
		if v := o.Decide(t.Context(), ann, h, the, image); v.Decision != consent.Refused || !strings.Contains(v.Sentence, "sees no files of its engine's host") {
			t.Errorf("%s, of a SWOP that sees no files: %+v", line, v)
		}
		o.Afar = false
	}
	o.Recent = silent
	if v := o.Decide(t.Context(), ann, h, the, image); v.Decision != consent.Later || strings.Contains(v.Sentence, root) {
		t.Errorf("a host that can't look: %+v", v)
	}
}
