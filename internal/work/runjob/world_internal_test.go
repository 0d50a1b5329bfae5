package runjob

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work"
)

// jobWith is member 1 of a job, on the second of the hosts a and b.
func jobWith(lines ...string) work.Job {
	return work.Job{
		Label: work.Label{Swarm: "s", Node: "b", Assignment: "7", Epoch: 2, Member: 1}, Group: "node",
		Task: &task.Task{Name: "t", Definition: []byte("name: x\n" + strings.Join(lines, "\n") + "\n")},
		World: []task.Site{
			{Node: "a", Group: "node", Address: "10.0.0.1"}, {Node: "b", Group: "node", Address: "10.0.0.2"}, {Node: "b", Group: "node", Address: "10.0.0.2"},
		},
	}
}

var three = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.2")}

func memberWith(t *testing.T, lines ...string) member {
	t.Helper()
	j := jobWith(lines...)
	job, w, err := jobOf(j)
	if err != nil {
		t.Fatal(err)
	}
	m, err := memberOf(j, job, w, ground{addresses: three, device: "eth7", metadata: "/m"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAMemberKnowsItsPlace(t *testing.T) {
	m := memberWith(t, "framework: pytorch", "replicas: 3", "command: train.py ${RANK}")
	got := map[string]string{}
	for _, v := range m.program.Env {
		got[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"SWARM_RUN_ID": "x-7", "SWARM_EPOCH": "1", "RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "SWARM_NODE_FQDN": "node-1", "SWARM_NODE_IP": "10.0.0.2",
		"GLOO_SOCKET_IFNAME": "eth7", "CLUSTER_NODES_METADATA_FILE": "/m", "SWARM_NODE_IPS": "10.0.0.1\n10.0.0.2\n10.0.0.2",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if want := []string{"python3", "train.py", "1"}; !slices.Equal(m.program.Command, want) {
		t.Errorf("it runs %q", m.program.Command)
	}
	if got, want := hostsOf(m.placed), []string{"node-0:10.0.0.1", "node-1:10.0.0.2", "node-2:10.0.0.2"}; !slices.Equal(got, want) {
		t.Errorf("names %q", got)
	}
}

// TestTheFileOfAllMembers holds it to the documents of Distributed Jobs, and to what their library reads.
func TestTheFileOfAllMembers(t *testing.T) {
	m := memberWith(t, "replicas: 3", "command: train.py")
	raw, err := metadata(m.placed, []string{"node", "node", "node"})
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]string
	if err := json.Unmarshal(raw, &got); err != nil || len(got) != 3 {
		t.Fatal(string(raw), err)
	}
	want := map[string]string{
		"IpAddress": "10.0.0.2", "IPAddress": "10.0.0.2", "FQDN": "node-2", "Rank": "2", "NodeGroupName": "node", "NodeId": "x-7-2", "LocalIndex": "1", "Host": "b",
	}
	if diff := cmp.Diff(got[2], want); diff != "" {
		t.Error(diff)
	}
}

// TestAWorldThatIsNotTheJobs holds that what an SN says is refused unless it is about this job and this host.
func TestAWorldThatIsNotTheJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*work.Job)
		want   string
	}{
		"none":          {func(j *work.Job) { j.World = nil }, "were not placed in the order"},
		"fewer":         {func(j *work.Job) { j.World = j.World[:2] }, "were not placed in the order"},
		"more":          {func(j *work.Job) { j.World = append(j.World, j.World[0]) }, "has 3 members, and 4 were placed"},
		"other group":   {func(j *work.Job) { j.World[2].Group = "g" }, "were not placed in the order"},
		"other host":    {func(j *work.Job) { j.World[1].Node = "c" }, "member 1 is not of this host"},
		"no member":     {func(j *work.Job) { j.Member = 3 }, "member 3 is not of this host"},
		"unsigned host": {func(j *work.Job) { j.Assignment.Hosts = []string{"b", "c"} }, "host a has a member, for which nobody has signed"},
		"not a job":     {func(j *work.Job) { j.Task.Definition = []byte("name: [") }, "task t: "},
		"other's group": {func(j *work.Job) { j.Group = "g" }, "is not of this host"},
	} {
		j := jobWith("replicas: 3", "command: train.py")
		tt.change(&j)
		if _, _, err := jobOf(j); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestWhatNoHostGives(t *testing.T) {
	j := jobWith("network: host", "command: train.py", "groups: [{name: node, replicas: 2, image: i:1}, {name: s}]")
	j.World[2].Group = "s"
	job, w, err := jobOf(j)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := memberOf(j, job, w, ground{addresses: three}); err == nil || !strings.Contains(err.Error(), "have an image and others none") {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	names := map[string]netip.Addr{"b.example": three[1]}
	for said, want := range map[string]string{"10.0.0.1": "10.0.0.1", "b.example": "10.0.0.2", "::ffff:10.0.0.1": "10.0.0.1", "fe80::1%eth0": "fe80::1"} {
		if a, err := reachedAt(task.Site{Address: said}, names); err != nil || a.String() != want {
			t.Errorf("%s: %v, %v", said, a, err)
		}
	}
	for _, said := range []string{"", "none.example", "10.0.0.1:80", strings.Repeat("a\n", 1000)} {
		if a, err := reachedAt(task.Site{Node: "b", Address: said}, names); err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Errorf("%q: %v, %v", said, a, err)
		}
	}
	loop := netip.MustParseAddr("127.0.0.1")
	world := jobWith().World
	for _, tt := range []struct {
		all  []netip.Addr
		want string
	}{
		{three, ""},
		{[]netip.Addr{loop, loop, loop}, ""},
		{[]netip.Addr{loop, three[1], three[2]}, "host a is known"},
		{[]netip.Addr{three[0], loop, loop}, "host b is known"},
	} {
		if err := apart(world, tt.all); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.all, err)
		}
	}
}

// TestTheSourceIsUnpacked holds that a folder has the source's files and no others, also after a try that was cut off, and that nothing is written
// outside of it.
func TestTheSourceIsUnpacked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "source")
	if err := os.MkdirAll(filepath.Join(dir, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []jobfile.File{{Path: "a/b/run.sh", Exec: true, Data: []byte("x")}, {Path: "train.py", Data: []byte("pass\n")}}
	if err := unpack(dir, files); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"a/b/run.sh": 0o755, "train.py": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
	for _, bad := range []string{"../out", "/out", "a/../../out"} {
		if err := unpack(dir, []jobfile.File{{Path: bad}}); err == nil {
			t.Errorf("%s was written", bad)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "out")); !os.IsNotExist(err) {
		t.Error("something lies beside the folder:", err)
	}
}
