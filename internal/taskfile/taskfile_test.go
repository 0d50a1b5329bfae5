package taskfile_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

var update = flag.Bool("update", false, "rewrite golden files")

// testdata returns the files of a directory by name.
func testdata(tb testing.TB, dir string) map[string][]byte {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		tb.Fatal("no files", err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		files[filepath.Base(p)] = raw
	}
	return files
}

// golden compares with the file beside what was read.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func say(w *bytes.Buffer, title string, found []*yamlfile.Finding) {
	for _, f := range found {
		fmt.Fprintf(w, "%s: %s\n", title, f)
	}
}

// Files in the style of the original's users: what is read of them, what is warned of, and what lint says.
func TestReadsPublishedTasks(t *testing.T) {
	for name, raw := range testdata(t, "tasks") {
		t.Run(name, func(t *testing.T) {
			task, warned, err := taskfile.ReadTask(name, raw)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			fmt.Fprintf(&got, "%s %s by %s after %s makes %s\n%s%+v\n", task.Type, task.Name, task.Author, task.Prereq, task.Outcome, task.Definition, task.Body)
			say(&got, "warning", warned)
			if err := task.Unfilled(); err != nil {
				fmt.Fprintln(&got, "unfilled:", err)
			}
			say(&got, "lint", taskfile.LintTask(name, raw))
			golden(t, filepath.Join("testdata", "tasks", strings.TrimSuffix(name, ".yaml")+".txt"), got.Bytes())

			body, err := taskfile.ReadBody(task.Type, task.Definition)
			if task.Unfilled() != nil {
				if err == nil {
					t.Error("a body with placeholders can be carried out")
				}
				return
			}
			if d := cmp.Diff(task.Body, body); err != nil || d != "" {
				t.Errorf("the definition reads as another body: %v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestReadsPublishedProfiles(t *testing.T) {
	for name, raw := range testdata(t, "profiles") {
		t.Run(name, func(t *testing.T) {
			p, warned, err := taskfile.ReadProfile(name, raw)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			fmt.Fprintf(&got, "%s for %s in %s, policy %q, SN %+v, licences %+v\nenv %v, proxies %v, dns %v, peers %d\n",
				p.GroupName, p.Taskrunner, p.Network, p.PolicyURI, p.API, p.APLS, p.Env, p.Proxies(), p.DNS, p.Peers())
			for _, n := range p.Nodes {
				fmt.Fprintf(&got, "%+v\n  SL's environment %v\n", n, p.SLEnv(&n))
			}
			say(&got, "warning", warned)
			if err := p.Unfilled(); err != nil {
				fmt.Fprintln(&got, "unfilled:", err)
			}
			say(&got, "lint", taskfile.LintProfile(name, raw))
			golden(t, filepath.Join("testdata", "profiles", strings.TrimSuffix(name, ".yaml")+".txt"), got.Bytes())
		})
	}
}

func TestEnvironments(t *testing.T) {
	p := taskfile.Profile{Env: []taskfile.Var{{"A", "1"}, {"https_proxy", "p"}, {"no_proxy", ""}, {"HTTP_PROXY", "q"}}}
	n := taskfile.Node{SLEnv: []taskfile.Var{{"A", "2"}, {"B", "3"}}, UserEnv: []taskfile.Var{{"EPOCHS", "9"}, {"C", ""}}}
	r := taskfile.RunSwarm{Env: []taskfile.Var{{"EPOCHS", "5"}, {"D", "4"}}}
	for _, tt := range []struct{ got, want []taskfile.Var }{
		{p.SLEnv(&n), []taskfile.Var{{"A", "2"}, {"https_proxy", "p"}, {"no_proxy", ""}, {"HTTP_PROXY", "q"}, {"B", "3"}}},
		{n.ProgramEnv(r), []taskfile.Var{{"EPOCHS", "9"}, {"D", "4"}, {"C", ""}}},
		{p.Proxies(), []taskfile.Var{{"https_proxy", "p"}, {"HTTP_PROXY", "q"}}},
	} {
		if d := cmp.Diff(tt.want, tt.got); d != "" {
			t.Error(d)
		}
	}
	if p.Env[0].Value != "1" || r.Env[0].Value != "5" {
		t.Error("what was put together was changed")
	}
}

func TestImage(t *testing.T) {
	for want, p := range map[string]taskfile.PullImage{
		"hub.example:5000/org/app:1.10": {OrgAndReg: "hub.example:5000/org/", RepoName: "/app", Tag: "1.10"},
		"app":                           {RepoName: "app"},
		"hub.example/app@sha256:0a":     {OrgAndReg: "hub.example", RepoName: "app", Tag: "sha256:0a"},
	} {
		if got := p.Image(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestLabels: a map, the original's list of maps, and Docker's lists of names, with values and without.
func TestLabels(t *testing.T) {
	const profile = "groupname: g\ntaskrunner: tr\npolicyuri: null\nnetwork: n\nresourcemgr: null\napls: null\napisrv: null\nenvvars: null\nnodes:\n  - slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null, sllabels: LABELS}\n"
	for labels, want := range map[string]struct {
		labels []taskfile.Var
		found  string
	}{
		"{a: b, c: null}":        {[]taskfile.Var{{"a", "b"}, {"c", ""}}, ""},
		"[a: b, c: 1]":           {[]taskfile.Var{{"a", "b"}, {"c", "1"}}, ""},
		"[gpu, \"site=a\", 7]":   {[]taskfile.Var{{"gpu", ""}, {"site", "a"}, {"7", ""}}, ""},
		"null":                   {},
		"gpu":                    {nil, "p.yaml:10: nodes[0].slnodedef.sllabels is text: write a name and a value, as A : b"},
		"[gpu, ~]":               {[]taskfile.Var{{"gpu", ""}}, "p.yaml:10: nodes[0].slnodedef.sllabels[1] is empty and left out"},
		"[\"two words\"]":        {nil, `p.yaml:10: nodes[0].slnodedef.sllabels has the name "two words": use one word without =`},
		"[gpu, [list], \"a=b\"]": {nil, "p.yaml:10: nodes[0].slnodedef.sllabels[1] is a list: write a name and a value, as A : b"},
	} {
		p, found, err := taskfile.ReadProfile("p.yaml", []byte(strings.Replace(profile, "LABELS", labels, 1)))
		said := fmt.Sprint(err)
		for _, f := range found {
			said += "\n" + f.Error()
		}
		if !strings.Contains(said, want.found) || err == nil && !slices.Equal(p.Nodes[0].SLLabels, want.labels) || (err == nil) != (want.labels != nil || labels == "null") {
			t.Errorf("%s: got %+v\n%s", labels, p, said)
		}
	}
}

// TestAnSLInTheNetworkBridgeNeedsAPort: others could not reach it.
func TestAnSLInTheNetworkBridgeNeedsAPort(t *testing.T) {
	const profile = "groupname: g\ntaskrunner: tr\npolicyuri: null\nnetwork: NET\nresourcemgr: null\napls: null\napisrv: null\nenvvars: null\nnodes:\n  - slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null, MORE}\n"
	for network, says := range map[string]map[string]bool{
		"bridge": {"slport: null": true, "slport: 30305": false, "slfsservice: \"sl.example:443\"": false},
		"lab":    {"slport: null": false}, "host": {"slport: null": false},
	} {
		for more, want := range says {
			_, found, err := taskfile.ReadProfile("p.yaml", []byte(strings.NewReplacer("NET", network, "MORE", more).Replace(profile)))
			if err != nil {
				t.Fatal(err)
			}
			got := slices.ContainsFunc(found, func(f *yamlfile.Finding) bool {
				return f.Line == 10 && strings.Contains(f.Text, "write slport : 30305, or make a network of your own")
			})
			if got != want {
				t.Errorf("network %s, %s: said %v, %v", network, more, got, found)
			}
		}
	}
}
