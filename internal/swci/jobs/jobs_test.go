package jobs_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

func write(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func explain(t *testing.T, file string, said jobfile.Overrides) *jobs.Explained {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yaml")
	write(t, path, file)
	j, _, err := jobs.Load(path, "")
	if err != nil {
		t.Fatal(err)
	}
	e, err := jobs.Preview(j, said)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Where members are is an example that keeps to what the file says.
func TestPlacesMembers(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"private", "name: x\nimage: i\nreplicas: 3\n", "h-1 h-1 h-1"},
		{"host", "name: x\nimage: i\nreplicas: 3\nnetwork: host\n", "h-1 h-2 h-3"},
		{"named", "name: x\nimage: i\nnetwork: host\ngroups: [{name: a, hosts: [mine]}, {name: b, replicas: 3, hosts: [y, z]}, {name: c}]\n", "mine y z y h-1"},
		{"private and named", "name: x\nimage: i\nhosts: [mine]\nreplicas: 2\n", "mine mine"},
		{"hosts that all may have", "name: x\ncommand: a\nhosts: [c, b, a]\ngroups: [{name: x, replicas: 2}, {name: y, hosts: [d, c, b]}]\n", "b c b"},
		{"private, and one host that all may have", "name: x\nimage: i\nhosts: [a, b]\ngroups: [{name: x}, {name: y, hosts: [b, c]}]\n", "b b"},
	} {
		var hosts []string
		for _, m := range explain(t, tt.file, jobfile.Overrides{}).Members {
			hosts = append(hosts, m.Host)
		}
		if got := strings.Join(hosts, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestSaysWhatIsWaitedFor(t *testing.T) {
	e := explain(t, `name: x
command: a
image: i:1
network: fast
work_dir: scratch
secrets: [TOKEN]
volumes: ["mnist:/mnt/data", "out:/mnt/out:rw"]
resources: {gpu: 1, memory: 4GB, disk: 1GB}
artifacts: {dir: /opt/ml, to: bucket}
ready_timeout: 5m
groups: [{name: a, hosts: [z, y]}]
`, jobfile.Overrides{Replicas: []string{"a=2"}})
	want := []string{
		"hosts with room for 2 members", "on each of them: a policy that allows network fast", "at the engine of each: network fast, which is one for all of them", "for each member of a: image i:1", "for each member of a: gpu=1, memory=4GB, disk=1GB",
		"for each member of a: no more than that disk, to which no host holds it",
		"for each member of a: a host of y, z", "for each member of a: volume mnist to read", "for each member of a: volume out to write", "for each member of a: secret TOKEN, and a policy that gives it",
		"on each of them: volume scratch for folders of runs, as work_dir", "on each of them: target bucket for artifacts", "all members to be ready within 5m",
	}
	if d := cmp.Diff(want, e.WaitsFor); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]jobs.Change{{Field: "a.replicas", File: "1", Start: "2"}}, e.Changes); d != "" {
		t.Error(d)
	}
}

// What would be signed is shown, or why no host would go by it.
func TestShowsWhatIsSigned(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"whoever takes jobs", "name: x\ncommand: python3 -m a\nreplicas: 2\n", "groups, each with how many have to succeed of how many: node 2/2\ngroups start: together\nhosts: those that take jobs then\nrestarts: 0\nall ready after being placed within: 10m\nends at the latest after: 30d\n"},
		{"together, for a time", "name: x\nimage: i\nends: {ttl: 4h}\nready_timeout: 1m\n", "groups, each with how many have to succeed of how many: node 1/1\ngroups start: together\nhosts: those that take jobs then, all members on one of them\nrestarts: 0\nall ready after being placed within: 1m\nends at the latest after: 30d\nends with success after all were ready for: 4h\n"},
		{
			"named", "name: x\ncommand: python3 -m a\nnetwork: host\nrestarts: 2\ntimeout: 1h\nstart: in-order\ngroups: [{name: a, hosts: [y, x]}, {name: b, replicas: 2, min_success: 1}]\n",
			"groups, each with how many have to succeed of how many: a 1/1, b 1/2\ngroups start: each when the one before is ready\nhosts: x, y\nrestarts: 2\nall ready after being placed within: 10m\nends at the latest after: 1h\n",
		},
		{
			"what a process may not be", "name: x\ncommand: rm -rf /\n",
			"nothing, as hosts would not carry it out: job x, group node: it runs \"rm\", and a process runs Python and executable files of the job's source alone: run it in a container with image\n",
		},
		{
			"on hosts apart", "name: x\ncommand: a\nnetwork: host\ngroups: [{name: a, hosts: [x]}, {name: b, hosts: [y]}]\n",
			"nothing, as hosts would not carry it out: no host may have members of all groups, and members are placed on such hosts alone: name one in each hosts\n",
		},
	} {
		var out bytes.Buffer
		explain(t, tt.file, jobfile.Overrides{}).Print(&out)
		if !strings.Contains(out.String(), "\nSigned when it is started\n"+tt.want+"\n") {
			t.Errorf("%s:\n%s", tt.name, out.String())
		}
	}
}

// What is printed is the whole job: each value that was said beside the file's, and each member's command.
func TestPrints(t *testing.T) {
	e := explain(t, "name: x\nframework: dask\nimage: i:1\ncommand: [grid.py, 'two words']\nreplicas: 2\nenv: {A: \"1\\n2\"}\n", jobfile.Overrides{Image: "i:2", Env: []string{"B=x"}})
	var out bytes.Buffer
	e.Print(&out)
	for _, want := range []string{
		"job x: 4 members, ", "changed: image is i:2; the file has i:1\n", "changed: env.B is x; the file has nothing\n", "ready_timeout: 10m\n",
		"worker: 2 members, serving the others: an exit before the end is a failure\n", "entry: 1 member, which has to succeed\n",
		"rank 1, worker on h-1: python3 -m distributed.cli.dask_worker tcp://198.18.0.1:8786 ", "    ready when workers of node-0's page http://198.18.0.1:8787/json/counts.json is 2 or more\n",
		"rank 3, entry on h-1: python3 grid.py 'two words'\n", "    A=1 2\n", "one host with room for all 4 members: network private reaches no other host\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
}

// A text that Python runs is shown by its first line, with all that is behind it.
func TestPrintsTexts(t *testing.T) {
	var out bytes.Buffer
	explain(t, "name: x\nframework: ray\nimage: i\ncommand: [tune.py, 'two words']\n", jobfile.Overrides{}).Print(&out)
	for _, want := range []string{
		"rank 0, head on h-1: python3 -c '# A node of Ray, and a program beside it", " …' 198.18.0.1:6379 2 --head --port 6379 --include-dashboard false --node-ip-address 198.18.0.1 -- python3 tune.py 'two words'\n",
		"    ready when this ends with 0: python3 -c '# Ends with 0 if Ray'\\''s cluster has that number of nodes: ADDRESS NODES …' 198.18.0.1:6379 1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	job := filepath.Join(dir, "job.yaml")
	for _, tt := range []struct {
		name, source, want string
		code               int
	}{
		{"missing", "none", "source none: there is no such folder", exit.NotFound},
		{"empty", "empty", "source empty: it has no files", exit.Failed},
		{"a way out", "link", "source link: a.py is a link", exit.Failed},
	} {
		write(t, job, "name: x\nsource: "+tt.source+"\n")
		if err := os.MkdirAll(filepath.Join(dir, "empty"), 0o755); err != nil {
			t.Fatal(err)
		}
		if tt.source == "link" {
			if err := os.Mkdir(filepath.Join(dir, "link"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link", "a.py")); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := jobs.Load(job, ""); err == nil || !strings.Contains(err.Error(), tt.want) || exit.Code(err) != tt.code {
			t.Errorf("%s: %v, exit code %d", tt.name, err, exit.Code(err))
		}
	}
	write(t, job, "name: x\nbeside: {sl: sl-1, address: h, port: 1}\n")
	if _, _, err := jobs.Load(job, ""); err == nil || !strings.Contains(err.Error(), "beside is written by SLs") || exit.Code(err) != exit.Usage {
		t.Errorf("an SL's: %v", err)
	}
	if _, _, err := jobs.Load(filepath.Join(dir, "no.yaml"), ""); exit.Code(err) != exit.NotFound {
		t.Errorf("no file: %v", err)
	}
}

// Each job that is written is one that can be explained, and a second time nothing is written over.
func TestInit(t *testing.T) {
	for name, files := range map[string][]string{
		"none": {"Dockerfile", "job.yaml", "source/work.py"}, "pytorch": {"Dockerfile", "job.yaml", "source/train.py"}, "dask": {"Dockerfile", "source/grid.py", "job.yaml"},
		"tensorflow": {"Dockerfile", "job.yaml", "source/train.py"}, "horovod": {"Dockerfile", "job.yaml", "source/train.py"}, "ray": {"Dockerfile", "source/grid.py", "job.yaml"},
	} {
		dir := filepath.Join(t.TempDir(), "My Job!")
		w, err := jobs.Init(dir, name, false)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		slices.Sort(w.Files)
		if d := cmp.Diff(files, w.Files); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		j, _, err := jobs.Load(filepath.Join(dir, "job.yaml"), "")
		if err != nil {
			t.Fatal(err)
		}
		e, err := jobs.Preview(j, jobfile.Overrides{})
		if err != nil || e.Name != "my-job" || j.Framework != name || len(e.Source) != 1 || len(e.Members) < 2 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if err := os.Remove(filepath.Join(dir, "Dockerfile")); err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.Init(dir, name, false); exit.Code(err) != exit.Conflict {
			t.Errorf("%s, again: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "Dockerfile")); err == nil {
			t.Errorf("%s: some files were written", name)
		}
	}
	dir := t.TempDir()
	w, err := jobs.Init(dir, jobfile.Dask, true)
	if err != nil || !slices.Equal(w.Files, []string{"source/grid.py", "job.yaml"}) {
		t.Errorf("of processes: %v, %v", w.Files, err)
	}
	if j, _, err := jobs.Load(filepath.Join(dir, "job.yaml"), ""); err != nil || j.Image != "" || j.Network != jobfile.Host {
		t.Errorf("of processes: %+v, %v", j, err)
	}
	if _, err := jobs.Init(t.TempDir(), "pytorhc", false); exit.Code(err) != exit.Usage || fmt.Sprint(err) != "--framework pytorhc is not known" {
		t.Errorf("framework: %v", err)
	}
}

// The program of `init job --framework none` runs with what its members are given, on addresses of this host.
func TestNewJobRuns(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	dir := t.TempDir()
	if _, err := jobs.Init(dir, jobfile.None, false); err != nil {
		t.Fatal(err)
	}
	j, _, err := jobs.Load(filepath.Join(dir, "job.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		t.Fatal(err)
	}
	p := framework.Placement{Run: "x-1"}
	for i := range w.Size() {
		p.Members = append(p.Members, framework.Place{Name: framework.NameOf(i), Address: fmt.Sprintf("127.77.%d.%d", os.Getpid()%250, i+1)})
	}
	programs, err := w.Programs(p)
	if err != nil {
		t.Fatal(err)
	}
	said := make([]bytes.Buffer, len(programs))
	var running []*exec.Cmd
	for i, x := range programs {
		c := exec.CommandContext(t.Context(), x.Command[0], x.Command[1:]...) //nolint:gosec // the job's own
		c.Dir, c.Stdout, c.Stderr, c.Env = filepath.Join(dir, "source"), &said[i], &said[i], os.Environ()
		for _, v := range x.Env {
			c.Env = append(c.Env, v.Name+"="+v.Value)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, c)
	}
	for i, c := range running {
		if err := c.Wait(); err != nil {
			t.Errorf("rank %d: %v, %s", i, err, said[i].String())
		}
	}
	if !strings.Contains(said[0].String(), "primes below 100000: 9592\n") {
		t.Errorf("rank 0 says %s", said[0].String())
	}
}

// The files of documents are jobs.
func TestDocumentsJobs(t *testing.T) {
	for name, least := range map[string]int{"reference/jobs.md": 2, "operations/ranks.md": 1} {
		raw, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(raw), "```yaml\n")[1:]
		if len(blocks) < least {
			t.Errorf("%s has %d files", name, len(blocks))
		}
		for _, b := range blocks {
			file, _, _ := strings.Cut(b, "```")
			j, err := jobfile.Read(name, []byte(file))
			if err != nil {
				t.Errorf("%v\n%s", err, file)
				continue
			}
			j.Folder = ""
			if _, err := jobs.Preview(j, jobfile.Overrides{}); err != nil {
				t.Errorf("%s: %v\n%s", name, err, file)
			}
		}
	}
}

// TestAPlanSignsAllThatHostsHold: what is sent of a job is what hosts make of it, in every field.
func TestAPlanSignsAllThatHostsHold(t *testing.T) {
	j, err := jobfile.Read("f", []byte("name: x\ncommand: a\nimage: i\nreplicas: 3\ndone_when: any\nends: {ttl: 4h}\nready_timeout: 1m\ngrace: 10s\nrestarts: 2\nstart: in-order\nhosts: [h-0]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := jobs.NewPlan(j, jobfile.Overrides{}, time.UnixMilli(99))
	if err != nil {
		t.Fatal(err)
	}
	signed := onwire.Asked(p.Request)
	if err := jobrequest.Hold(signed, p.Task.Definition); err != nil || !signed.Together || signed.GraceMS != 10_000 || signed.LivesMS == 0 {
		t.Errorf("%+v: %v", signed, err)
	}
}

// TestAPlanIsOfWhatHostsRun: what no host would carry out is refused before it is signed.
func TestAPlanIsOfWhatHostsRun(t *testing.T) {
	for file, want := range map[string]string{
		"command: [a, '${TYPO}']":                                "group node: command has ${TYPO}, which nothing sets here",
		"replicas: 2\ncommand: [a, '${SWARM_WORK_DIR}']":         "group node: command has ${SWARM_WORK_DIR}, which nothing sets here",
		"command: rm -rf /":                                      "group node: it runs \"rm\", and a process runs",
		"command: python3 -m a\nenv: {LD_PRELOAD: /x}":           "group node: its env sets \"LD_PRELOAD\"",
		"groups: [{name: r, image: i:1}, {name: s, command: a}]": "some of its groups have an image and others none",
	} {
		j, err := jobfile.Read("f", []byte("name: x\n"+file+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.NewPlan(j, jobfile.Overrides{}, time.UnixMilli(99)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

// Members of all groups are on hosts that all of them name, and nowhere else.
func TestNeedsHostsThatAllMayHave(t *testing.T) {
	e := explain(t, "name: x\ncommand: a\nhosts: [c, b, a]\ngroups: [{name: x}, {name: y, hosts: [d, c, b]}]\n", jobfile.Overrides{})
	want := []string{
		"hosts with room for 2 members", "for each member of x: a policy that allows processes", "for each member of x: a host of b, c", "for each member of y: a policy that allows processes",
		"for each member of y: a host of b, c", "all members to be ready within 10m",
	}
	if d := cmp.Diff(want, e.WaitsFor); d != "" {
		t.Error(d)
	}
}

// Members that listen to one port of their hosts are on different ones.
func TestNeedsHostsForAPort(t *testing.T) {
	e := explain(t, "name: x\nframework: tensorflow\ncommand: a\nreplicas: 3\n", jobfile.Overrides{})
	if want := "a host of its own for each of 3 members: all listen to port 12345"; !slices.Contains(e.WaitsFor, want) {
		t.Errorf("%q, want %s", e.WaitsFor, want)
	}
}
