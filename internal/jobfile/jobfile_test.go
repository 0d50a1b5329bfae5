package jobfile_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// whole has every field.
const whole = `name: nightly-prep
framework: none
image: prep:1
command: python3 prep.py --rank ${SWARM_NODE_RANK}
args: ["--cost", $$5]
env: {EPOCHS: 3, EMPTY: , MODE: "a: b # c"}
secrets: [HF_TOKEN, {name: KEY, as: file}]
resources: {cpu: 0.5, memory: 1.5GiB, gpu: 1, disk: 50GB, shm: 64MB}
hosts: [h-1, h-2]
volumes: ["mnist:/mnt/data", "out:/mnt/out:rw"]
ready: {port: 9000}
groups:
- name: router
- name: shard
  replicas: 3
  min_success: 2
  image: shard:2
  command: [./shard, "two words"]
  args: []
  env: {MODE: shard}
  resources: {cpu: 2}
  hosts: [h-3]
  ready: {command: test -f /tmp/up, period: 2s, timeout: 20s}
network: fast
work_dir: scratch
artifacts: {dir: /opt/ml, to: bucket, every: 90s}
source: ./prep
start: in-order
done_when: all
ends: {ttl: 4h}
timeout: 1d12h
ready_timeout: 120s
grace: 20s
restarts: 3
beside: {sl: sl-1, address: 10.0.0.1, port: 29401, epoch: 2}
compat: oci
`

// daskOfOneKind has a program and workers with the same arguments, and the same way to be asked.
const daskOfOneKind = "name: d\nframework: dask\ncommand: a.py\nargs: [--a, 1]\nready: {port: 1}\ngroups: [{name: worker, replicas: 2, args: [--a, 1], ready: {port: 1}}, {name: entry, args: [--a, 1]}]\n"

// asWritten leaves out whether a file says what holds by default.
var asWritten = cmpopts.IgnoreFields(jobfile.Job{}, "AnyNetwork")

func read(t *testing.T, file string) *jobfile.Job {
	t.Helper()
	j, err := jobfile.Read("job.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestReadsEveryField(t *testing.T) {
	top := jobfile.Settings{
		Image: "prep:1", Command: []string{"python3", "prep.py", "--rank", "${SWARM_NODE_RANK}"}, Args: []string{"--cost", "$$5"},
		Env:       []jobfile.Var{{Name: "EMPTY"}, {Name: "EPOCHS", Value: "3"}, {Name: "MODE", Value: "a: b # c"}},
		Secrets:   []jobfile.Secret{{Name: "HF_TOKEN"}, {Name: "KEY", File: true}},
		Resources: jobfile.Resources{CPU: 500, GPU: 1, Memory: 3 << 29, Disk: 50e9, Shm: 64e6},
		Hosts:     []string{"h-1", "h-2"},
		Volumes:   []jobfile.Volume{{Name: "mnist", Target: "/mnt/data"}, {Name: "out", Target: "/mnt/out", Write: true}},
		Ready:     jobfile.Ready{Port: 9000, Period: 5 * time.Second, Timeout: 5 * time.Second},
	}
	shard := top
	shard.Image, shard.Command, shard.Args, shard.Hosts = "shard:2", []string{"./shard", "two words"}, nil, []string{"h-3"}
	shard.Env = []jobfile.Var{{Name: "EMPTY"}, {Name: "EPOCHS", Value: "3"}, {Name: "MODE", Value: "shard"}}
	shard.Resources.CPU = 2000
	shard.Ready = jobfile.Ready{Command: []string{"test", "-f", "/tmp/up"}, Period: 2 * time.Second, Timeout: 20 * time.Second}
	want := &jobfile.Job{
		Name: "nightly-prep", Framework: "none", Settings: top,
		Groups:  []jobfile.Group{{Name: "router", Replicas: 1, Settings: top}, {Name: "shard", Replicas: 3, MinSuccess: 2, Settings: shard}},
		Network: "fast", WorkDir: "scratch", Artifacts: jobfile.Artifacts{Dir: "/opt/ml", To: "bucket", Every: 90 * time.Second}, Folder: "./prep",
		Start: "in-order", DoneWhen: "all", TTL: 4 * time.Hour, Timeout: 36 * time.Hour, ReadyTimeout: 2 * time.Minute, Grace: 20 * time.Second, Restarts: 3,
		Beside: jobfile.Beside{SL: "sl-1", Address: "10.0.0.1", Port: 29401, Epoch: 2}, Compat: "oci",
	}
	if d := cmp.Diff(want, read(t, whole), asWritten); d != "" {
		t.Error(d)
	}
}

// A job of three lines has all that is not said as it is documented.
func TestDefaults(t *testing.T) {
	want := &jobfile.Job{
		Name: "x", Framework: "none", Settings: jobfile.Settings{Command: []string{"true"}}, Replicas: 1, Network: "host",
		Timeout: 30 * 24 * time.Hour, ReadyTimeout: 10 * time.Minute, Grace: 30 * time.Second,
	}
	if d := cmp.Diff(want, read(t, "name: x\ncommand: 'true'\n"), asWritten); d != "" {
		t.Error(d)
	}
	want.Image, want.Network = "i", "private"
	if d := cmp.Diff(want, read(t, "name: x\nimage: i\ncommand: 'true'\n"), asWritten); d != "" {
		t.Error(d)
	}
}

// A job that is written out reads back as itself, also with its source.
func TestRoundTrip(t *testing.T) {
	for _, file := range []string{whole, "name: x\n", daskOfOneKind, "name: d\nframework: dask\ncommand: a.py\nargs: [x]\ngroups: [{name: scheduler}, {name: worker, replicas: 2, args: [--nthreads, 2]}]\n"} {
		j := read(t, file)
		if again := read(t, j.Text()); !cmp.Equal(j, again, asWritten) {
			t.Errorf("%s\nreads as another: %s", j.Text(), cmp.Diff(j, again, asWritten))
		}
		if j.Folder != "" {
			if _, err := j.Encode(); err == nil {
				t.Error("a body without the source that it needs")
			}
		}
		j.Folder = ""
		j.Source = []jobfile.File{
			{Path: "a.py", Exec: true, Data: []byte("print('ä')\n--- source\n\ttab\n")},
			{Path: "b/empty", Data: []byte{}},
			{Path: "b/no line end", Data: []byte("x")},
			{Path: "c.bin", Data: []byte(strings.Repeat("\x00\xff", 500))},
		}
		body, err := j.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := jobfile.Decode(body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if d := cmp.Diff(j, again, asWritten); d != "" {
			t.Errorf("%s\n%s", body, d)
		}
	}
}

// A body is what an operator approves: it shows programs as they are.
func TestBodyShowsText(t *testing.T) {
	j := read(t, "name: x\ncommand: [sh, a.sh]\n")
	j.Source = []jobfile.File{{Path: "a.sh", Exec: true, Data: []byte("echo hello\n")}, {Path: "b", Data: []byte{0}}}
	body, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `name: x
framework: none
command:
- sh
- a.sh
replicas: 1
network: host
timeout: 30d
ready_timeout: 10m
grace: 30s
restarts: 0
--- source
755 text 11 a.sh
echo hello
644 base64 1 b
AA==
`
	if d := cmp.Diff(want, string(body)); d != "" {
		t.Error(d)
	}
}

func TestPack(t *testing.T) {
	folder := fstest.MapFS{
		"train.py": {Data: []byte("1\n"), Mode: 0o644}, "lib/a.sh": {Data: []byte("2\n"), Mode: 0o755}, "lib.py": {Data: []byte("3"), Mode: 0o600},
		".git/HEAD": {Data: []byte("x")}, "lib/__pycache__/a.pyc": {Data: []byte("x")},
	}
	got, err := jobfile.Pack(folder)
	want := []jobfile.File{{Path: "lib.py", Data: []byte("3")}, {Path: "lib/a.sh", Exec: true, Data: []byte("2\n")}, {Path: "train.py", Data: []byte("1\n")}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
	for _, tt := range []struct {
		name, file string
		is         *fstest.MapFile
		want       string
	}{
		{"link", "l", &fstest.MapFile{Mode: 0o777 | 1<<27, Data: []byte("/etc/passwd")}, "l is a link: put a file there, or make it part of the image"},
		{"size", "big", &fstest.MapFile{Data: make([]byte, 1<<20)}, "the source has more than 1048576 bytes: make it part of the image"},
		{"name", "a\nb", &fstest.MapFile{}, `it has a file with the name "a\nb": use letters, digits and _ . - /, 255 bytes at most`},
	} {
		folder := fstest.MapFS{"train.py": {Data: []byte("1\n")}, tt.file: tt.is}
		if _, err := jobfile.Pack(folder); fmt.Sprint(err) != tt.want {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	if _, err := jobfile.Pack(fstest.MapFS{}); fmt.Sprint(err) != "it has no files" {
		t.Errorf("empty: %v", err)
	}
}
