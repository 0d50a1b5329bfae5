package container

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/docker/docker/api/types/mount"
	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

func good() Spec {
	return Spec{Node: "sl-1", Image: "i", ModelDir: "/m", Program: "p.py", User: "1:2", Scope: "s", Incarnation: "l"}
}

func TestIsolation(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"container, no network":                                       func(*Spec) {},
		"container, open: network lab":                                func(s *Spec) { s.Network = "lab" },
		"container, open: network lab, with a way out":                func(s *Spec) { s.Network, s.LeadsOut = "lab", true },
		"container, no network, open: mount /a, mount /b (read-only)": func(s *Spec) { s.Mounts = []string{"/a:/x", "/b:/y:ro"} },
		"container, open: network host, device /dev/kfd, capability SYS_PTRACE, security option seccomp=unconfined, ipc host, privileged": func(s *Spec) {
			s.Network, s.Devices, s.CapAdd, s.SecurityOpt = "host", []string{"/dev/kfd"}, []string{"SYS_PTRACE"}, []string{"seccomp=unconfined"}
			s.IPC, s.Privileged = "host", true
		},
		"container, no network, open: device /dev/a?b": func(s *Spec) { s.Devices = []string{"/dev/a\nb"} },
		"container, no network, open: ipc shareable":   func(s *Spec) { s.IPC = "shareable" },
	} {
		s := good()
		change(&s)
		if got := s.Isolation(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	s := good()
	s.Network, s.IPC, s.GPUs, s.GroupAdd = "none", "private", "all", []string{"video"}
	if got := s.Isolation(); got != "container, no network" {
		t.Errorf("got %q of a Spec that opens nothing", got)
	}
	s.Devices = []string{strings.Repeat("/dev/ä", 1000)}
	if got := s.Isolation(); len(got) > maxIsolation || !strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestCompleteRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"good":                 {func(*Spec) {}, ""},
		"no image":             {func(s *Spec) { s.Image = "" }, "no image"},
		"no node":              {func(s *Spec) { s.Node = "" }, "no node"},
		"no program":           {func(s *Spec) { s.Program = "" }, "no program"},
		"command instead":      {func(s *Spec) { s.Program, s.Cmd = "", []string{"run"} }, ""},
		"program leaves":       {func(s *Spec) { s.Program = "../p.py" }, "leaves the model directory"},
		"program in the image": {func(s *Spec) { s.Program, s.ModelDir = "/opt/p.py", "" }, ""},
		"no model directory":   {func(s *Spec) { s.ModelDir = "" }, "no model directory"},
		"relative directory":   {func(s *Spec) { s.DataDir = "data" }, "--data-dir data is relative"},
		"spill volume":         {func(s *Spec) { s.Spill = "swarmd-sl-1-spill" }, ""},
		"spill relative":       {func(s *Spec) { s.Spill = "./x" }, "./x is neither"},
		"work directory":       {func(s *Spec) { s.WorkDir = "x" }, "--ml-w x is relative"},
		"user name":            {func(s *Spec) { s.User = "root" }, "--ml-user root"},
		"user with rest":       {func(s *Spec) { s.User = "1:2:3" }, "--ml-user"},
		"negative user":        {func(s *Spec) { s.User = "-1" }, "--ml-user"},
		"GPUs":                 {func(s *Spec) { s.GPUs = "0, 2" }, ""},
		"GPU UUIDs":            {func(s *Spec) { s.GPUs = "GPU-8a56a4bc-b184-a047-2620-7b5a4fc9e4b2,MIG-8a56a4bc" }, ""},
		"GPU word":             {func(s *Spec) { s.GPUs = "0,two" }, `"two" is no GPU`},
		"GPU empty":            {func(s *Spec) { s.GPUs = "0," }, `"" is no GPU`},
		"GPU twice":            {func(s *Spec) { s.GPUs = "1,1" }, "names 1 twice"},
		"negative memory":      {func(s *Spec) { s.Memory = -1 }, "negative"},
		"negative CPUs":        {func(s *Spec) { s.CPUs = -1 }, "--ml-cpus"},
		"environment":          {func(s *Spec) { s.Env = []string{"NOVALUE"} }, `"NOVALUE"`},
		"device":               {func(s *Spec) { s.Devices = []string{"kfd"} }, "kfd"},
		"NUL":                  {func(s *Spec) { s.Cmd = []string{"a\x00b"} }, "NUL"},
		"NUL in an argument":   {func(s *Spec) { s.Args = []string{"a\x00b"} }, "NUL"},
		"mount":                {func(s *Spec) { s.Mounts = []string{"/a"} }, "bad mount --ml-v /a"},
		"mount mode":           {func(s *Spec) { s.Mounts = []string{"/a:/b:z"} }, "neither ro nor rw"},
		"mount relative":       {func(s *Spec) { s.Mounts = []string{"./a:/b"} }, "./a:/b"},
		"mount onto root":      {func(s *Spec) { s.Mounts = []string{"/a:/"} }, "below /"},
		"mount onto data":      {func(s *Spec) { s.DataDir, s.Mounts = "/d", []string{"/a:" + engine.DataDir} }, "mounted already"},
		"mount twice":          {func(s *Spec) { s.Mounts = []string{"/a:/x", "/b:/x/"} }, "mounted already"},
		"two things":           {func(s *Spec) { s.Image, s.User = "", "me" }, "no image is given: name one with --ml-image or --sl-platform\n--ml-user me"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			tt.change(&s)
			_, err := s.complete()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCompleteFillsIn(t *testing.T) {
	t.Setenv("SWARM_SCOPE", "team")
	s, err := Spec{Node: "n", Image: "i", ModelDir: "/m", Program: "p.py", GPUs: " ALL ", User: "0"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if s.Scope != "team" || s.Incarnation == "" || s.Pids != 4096 || s.ShmSize != 1<<30 || s.Grace != 10*time.Second || s.WorkDir != engine.ModelDir || s.GPUs != "all" || s.User != "0:0" {
		t.Errorf("got %+v", s)
	}
	for in, want := range map[string]string{"4000000": "4000000:4000000", "7:8": "7:8", "": fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())} {
		if got, err := completeUser(in); err != nil || got != want {
			t.Errorf("user %q: got %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestConfigIsolates(t *testing.T) {
	s := good()
	s.DataDir, s.BridgeDir, s.Spill, s.Memory, s.CPUs = "/d", "/dev/shm/b", "vol", 512<<20, 1.5
	s.Args = []string{"--lr", "a b"}
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	c, h, err := s.config(engine.RoleML, capabilities{init: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(c.Entrypoint), []string{"python3", "-u", "/platform/swarmml/model/p.py", "--lr", "a b"}); diff != "" {
		t.Error(diff)
	}
	if !h.ReadonlyRootfs || h.NetworkMode != "none" || h.IpcMode != "private" || h.Privileged || h.Memory != 512<<20 || h.MemorySwap != h.Memory ||
		h.NanoCPUs != 1.5e9 || *h.PidsLimit != 4096 || h.ShmSize != 1<<30 || !*h.Init || h.RestartPolicy.Name != "" || h.AutoRemove {
		t.Errorf("host configuration: %+v", h)
	}
	if !slices.Equal([]string(h.CapDrop), []string{"ALL"}) || len(h.CapAdd) != 0 || !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}) {
		t.Errorf("privileges: %v %v %v", h.CapDrop, h.CapAdd, h.SecurityOpt)
	}
	if got := h.Tmpfs["/tmp"]; got != "rw,exec,nosuid,nodev,mode=1777,size=268435456" {
		t.Errorf("/tmp is %s", got)
	}
	want := []mount.Mount{
		{Type: "bind", Source: "/d", Target: engine.DataDir, ReadOnly: true},
		{Type: "bind", Source: "/m", Target: engine.ModelDir},
		{Type: "bind", Source: "/dev/shm/b", Target: engine.BridgeDir},
		{Type: "volume", Source: "vol", Target: engine.SpillDir},
	}
	if diff := cmp.Diff(h.Mounts, want); diff != "" {
		t.Errorf("mounts (-got +want):\n%s", diff)
	}
	labels := map[string]string{
		engine.LabelRole: "ml", engine.LabelScope: "s", engine.LabelNode: "sl-1", engine.LabelPlatform: "", engine.LabelIncarnation: "l",
	}
	if diff := cmp.Diff(c.Labels, labels); diff != "" {
		t.Errorf("labels (-got +want):\n%s", diff)
	}
}

func TestConfigOpens(t *testing.T) {
	s := good()
	s.Network, s.IPC, s.Privileged, s.CapAdd, s.SecurityOpt = "host", "host", true, []string{"SYS_ADMIN"}, []string{"seccomp=unconfined"}
	s.Mounts, s.Devices, s.GPUs, s.GroupAdd = []string{"/scratch:/tmp"}, []string{"/dev/kfd:rw"}, "0,2", []string{"video"}
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	c, h, err := s.config(engine.RoleML, capabilities{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Hostname != "" || h.Init != nil || len(h.Tmpfs) != 0 || h.ShmSize != 0 || len(h.CapDrop) != 0 || !slices.Equal(h.SecurityOpt, []string{"seccomp=unconfined"}) {
		t.Errorf("got %+v", h)
	}
	if d := h.Devices; len(d) != 1 || d[0].PathInContainer != "/dev/kfd" || d[0].CgroupPermissions != "rw" {
		t.Errorf("devices %+v", d)
	}
	if r := h.DeviceRequests; len(r) != 1 || r[0].Count != 0 || !slices.Equal(r[0].DeviceIDs, []string{"0", "2"}) {
		t.Errorf("GPUs %+v", r)
	}
	s.GPUs = "all"
	if r := s.gpuRequests(); r[0].Count != -1 || len(r[0].DeviceIDs) != 0 || !slices.Equal(r[0].Capabilities[0], []string{"gpu", "compute", "utility"}) {
		t.Errorf("GPUs %+v", r)
	}
}

// TestPlaceInANetwork holds how others know the program's container: by what the user says, but for what only swarmd may.
func TestPlaceInANetwork(t *testing.T) {
	s := good()
	s.Network, s.Hostname, s.IP, s.DNS, s.Labels = "lab", "user1", "172.1.1.3", []string{"9.9.9.9"}, []string{"of=ann", engine.LabelRole + "=sl"}
	c, h, err := s.config(engine.RoleML, capabilities{})
	if err != nil || c.Hostname != "user1" || !slices.Equal(h.DNS, s.DNS) || c.Labels["of"] != "ann" || c.Labels[engine.LabelRole] != engine.RoleML {
		t.Errorf("%v, %+v, %v", err, c, h.DNS)
	}
	place, err := s.endpoint(engine.RoleML)
	if err != nil || place.EndpointsConfig["lab"].IPAMConfig.IPv4Address != "172.1.1.3" {
		t.Errorf("%v, %+v", err, place)
	}
	if place, err := s.endpoint(engine.RoleProbe); err != nil || place.EndpointsConfig != nil {
		t.Errorf("of a probe: %v, %+v", err, place)
	}
	s.Network = ""
	if _, err := s.endpoint(engine.RoleML); err == nil || !strings.Contains(err.Error(), "--ml-ip 172.1.1.3: only a network that you have made") {
		t.Error(err)
	}
}

func TestEnviron(t *testing.T) {
	s := good()
	s.DataDir, s.BridgeDir = "/d", "/b"
	s.Env = []string{"A=1", "HOME=/mine", "A=2", "SWARM_BRIDGE_DIR=/elsewhere", "EMPTY="}
	want := []string{
		"HOME=/mine", "TMPDIR=/tmp", "XDG_CACHE_HOME=/tmp/.cache", "USER=swarm", "LOGNAME=swarm", "PYTHONUNBUFFERED=1", "NVIDIA_VISIBLE_DEVICES=void",
		"DATA_DIR=/platform/swarmml/data", "MODEL_DIR=/platform/swarmml/model", "A=2", "SWARM_BRIDGE_DIR=/platform/swarmml/bridge", "EMPTY=",
	}
	if diff := cmp.Diff(s.environ(), want); diff != "" {
		t.Errorf("environment (-got +want):\n%s", diff)
	}
	s.GPUs = "0,2"
	if !slices.Contains(s.environ(), "NVIDIA_VISIBLE_DEVICES=0,2") {
		t.Errorf("got %q", s.environ())
	}
}

func TestHostname(t *testing.T) {
	for in, want := range map[string]string{"SL_1": "sl-1-ml", "--": "ml", strings.Repeat("x", 100): strings.Repeat("x", 60) + "-ml", "größe": "gr--e-ml"} {
		if got := hostname(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestRefuseSockets(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/run", link); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own.sock")
	for source, refused := range map[string]bool{
		"/var/run/docker.sock": true, "/run/docker.sock": true, "/run": true, "/var/run": true, "/": true, "/run/podman": true, link: true,
		"/run/user/1000/podman/podman.sock": true, "/run/containerd": true, own: true, dir: true, "/run/../run//docker.sock": true,
		"/scratch": false, "/run/docker.sock.d": false, "/runner": false, "/var/running": false, "/var/lib": false, filepath.Join(dir, "sub"): false,
	} {
		err := refuseSockets("unix://"+own, []mount.Mount{{Type: mount.TypeBind, Source: source, Target: "/x"}})
		if (err != nil) != refused {
			t.Errorf("%s: got %v, want refused %t", source, err, refused)
		}
	}
	if err := refuseSockets("tcp://h:1", []mount.Mount{{Type: mount.TypeVolume, Source: "run", Target: "/run"}}); err != nil {
		t.Errorf("a volume: %v", err)
	}
}

func TestReason(t *testing.T) {
	for name, tt := range map[string]struct {
		e    ending
		tail []string
		want string
	}{
		"success":           {ending{}, nil, "exit code 0"},
		"failure":           {ending{code: 3}, nil, "exit code 3"},
		"memory":            {ending{code: 137, oom: true, memory: 512 << 20}, nil, "killed by signal 9 (killed): killed for memory (limit 512 MiB): raise --ml-memory"},
		"memory of a child": {ending{code: 1, oom: true, memory: 3 << 29}, nil, "exit code 1: killed for memory (limit 1.5 GiB): raise --ml-memory"},
		"machine's memory":  {ending{code: 137, oom: true}, nil, "killed by signal 9 (killed): killed for memory: this machine has no more"},
		"memory, survived":  {ending{code: 0, oom: true, memory: 1 << 30}, nil, "exit code 0"},
		"stopped by us":     {ending{code: 137, stopped: true}, nil, "killed by signal 9 (killed)"},
		"killed by others":  {ending{code: 137, memory: 1 << 30}, nil, "killed by signal 9 (killed): killed from outside, by hand or for memory (limit 1 GiB): raise --ml-memory if so"},
		"engine restarted":  {ending{code: 143, away: true}, nil, "killed by signal 15 (terminated): " + reasonRestarted},
		"vanished":          {ending{vanished: true}, nil, reasonVanished},
		"lost":              {ending{lost: "gone"}, nil, "gone"},
		"torch's loader": {
			ending{code: 1, shm: 64 << 20},
			[]string{"RuntimeError: DataLoader worker (pid 23) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", "x"},
			"exit code 1: shared memory is too small for the data loaders (64 MiB): raise --ml-shm-size",
		},
		"torch's storage": {
			ending{code: 1, shm: 64 << 20},
			[]string{"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."},
			"exit code 1: shared memory is too small for the data loaders (64 MiB): raise --ml-shm-size",
		},
		"shm full":         {ending{code: 1}, []string{`OSError: [Errno 28] No space left on device: '/dev/shm/x'`}, "exit code 1: shared memory is too small for the data loaders: raise --ml-shm-size"},
		"disk full":        {ending{code: 1}, []string{`OSError: [Errno 28] No space left on device: 'model.pt'`}, "exit code 1"},
		"code 125":         {ending{code: 125, fault: "no\nspace"}, nil, "exit code 125: usually the container could not be run: no space"},
		"machine restart":  {ending{code: 255, adopted: true}, nil, "exit code 255: the program ended so, or this machine was restarted"},
		"engine's message": {ending{code: 1, fault: "something broke"}, nil, "exit code 1: something broke"},
	} {
		t.Run(name, func(t *testing.T) {
			x := tt.e.exit(tt.tail, nil)
			if got := x.String(); got != tt.want || x.Lost != (tt.e.lost != "") {
				t.Errorf("got  %s, lost: %t\nwant %s", got, x.Lost, tt.want)
			}
		})
	}
}

// frame is an entry as engines send it.
func frame(stream byte, text string) []byte {
	b := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[4:], uint32(len(text)))
	return append(b, text...)
}

func TestReadFrames(t *testing.T) {
	whole := slices.Concat(frame(1, "a"), frame(2, ""), frame(1, strings.Repeat("x", 100_000)))
	for cut := range 60 {
		var got []string
		err := readFrames(iotest.OneByteReader(bytes.NewReader(whole[:len(whole)-cut])), func(stream int, b []byte) {
			got = append(got, fmt.Sprint(stream, len(b)))
		})
		want := []string{"1 1", "2 0", "1 100000"}
		if cut > 0 {
			want = want[:2]
		}
		if diff := cmp.Diff(got, want); err != nil || diff != "" {
			t.Fatalf("cut by %d: %v\n%s", cut, err, diff)
		}
	}
	for name, tt := range map[string]struct {
		bytes []byte
		want  string
	}{
		"too long":       {[]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "4294967295 bytes"},
		"engine's error": {frame(3, "disk broken\n"), "the engine says: disk broken"},
	} {
		err := readFrames(bytes.NewReader(tt.bytes), func(int, []byte) { t.Errorf("%s: got an entry", name) })
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	broken := errors.New("broken")
	if err := readFrames(iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func FuzzReadFrames(f *testing.F) {
	f.Add(slices.Concat(frame(1, "2026-01-02T03:04:05.000000001Z a\n"), frame(2, "b"), frame(3, "c")))
	f.Fuzz(func(_ *testing.T, b []byte) {
		out := launch.NewOutput(launch.OutputConfig{})
		l := newLogs(nil, "", out, time.Time{})
		_ = readFrames(bytes.NewReader(b), l.take)
		l.close()
	})
}

// resumed plays goes of a log that hand out the entries again, and returns the lines that came.
func resumed(since time.Time, goes ...[]string) (lines []string, to time.Time) {
	out := launch.NewOutput(launch.OutputConfig{Line: func(stream, line string) { lines = append(lines, stream[3:]+":"+line) }})
	l := newLogs(nil, "", out, since)
	for _, entries := range goes {
		l.begin()
		for _, e := range entries {
			stream, text, _ := strings.Cut(e, " ")
			l.take(map[string]int{"o": 1, "e": 2}[stream], []byte("2026-01-02T03:04:"+text))
		}
	}
	l.close()
	return lines, l.Time()
}

func TestNoLineIsLostOrTwice(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, "2026-01-02T03:04:"+s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, tt := range map[string]struct {
		since time.Time
		goes  [][]string
		want  []string
	}{
		"again":                {time.Time{}, [][]string{{"o 05.1Z a\n", "e 05.2Z b\n"}, {"o 05.1Z a\n", "e 05.2Z b\n", "o 05.3Z c\n"}}, []string{"out:a", "err:b", "out:c"}},
		"same time":            {time.Time{}, [][]string{{"o 05Z a\n", "o 05Z b\n"}, {"o 05Z a\n", "o 05Z b\n", "o 05Z c\n"}, {"o 05Z a\n", "o 05Z b\n", "o 05Z c\n", "o 06Z d\n"}}, []string{"out:a", "out:b", "out:c", "out:d"}},
		"streams out of order": {time.Time{}, [][]string{{"o 05.2Z a\n"}, {"o 05.2Z a\n", "e 05.1Z b\n", "e 05.3Z c\n"}}, []string{"err:b", "out:a", "err:c"}},
		"piece of a line":      {time.Time{}, [][]string{{"o 05.1Z a"}, {"o 05.1Z a", "o 05.1Z b\n"}}, []string{"out:ab"}},
		"clock set back":       {time.Time{}, [][]string{{"o 09Z a\n", "o 05Z b\n", "o 06Z c\n"}}, []string{"out:a", "out:b", "out:c"}},
		"adopted":              {at("05.5Z"), [][]string{{"o 05.4Z a\n", "o 05.5Z b\n", "o 05.6Z c\n"}}, []string{"out:c"}},
		"whole seconds":        {at("05.000000002Z"), [][]string{{"o 04Z a\n", "o 05Z b\n", "e 05Z c\n", "o 05Z d\n", "o 06Z e\n"}}, []string{"out:d", "out:e"}},
		"no time":              {time.Time{}, [][]string{{"o what\n"}}, []string{"out:2026-01-02T03:04:what"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := resumed(tt.since, tt.goes...)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("lines (-got +want):\n%s", diff)
			}
		})
	}
	// The time is that of the last whole line, which a later daemon need not read again.
	if _, to := resumed(time.Time{}, []string{"o 05.1Z a\n", "e 05.05Z b\n", "o 05.3Z c"}); !to.Equal(at("05.1Z")) {
		t.Errorf("got %s, want 05.1", to)
	}
	if _, to := resumed(at("05.000000002Z"), []string{"o 05Z a\n", "e 05Z b\n", "o 05Z c\n", "e 05Z d\n", "o 05Z e"}); !to.Equal(at("05.000000004Z")) {
		t.Errorf("got %s, want the second and four entries", to)
	}
}

func TestJudgeGPUs(t *testing.T) {
	two := []string{"GPU 0: Tesla (UUID: GPU-a)", "GPU 1: Tesla (UUID: GPU-b)"}
	for name, tt := range map[string]struct {
		ask  string
		list []string
		code string
		want string
	}{
		"none asked":    {"", nil, "", ""},
		"all":           {"all", two, "0", ""},
		"as many":       {"0,1", two, "0", ""},
		"fewer":         {"0,1,2", two, "0", "asks for 3 GPUs, the container has 2"},
		"parts":         {"MIG-a,MIG-b", []string{two[0], "  MIG 1g.5gb Device 0: (UUID: MIG-a)", "  MIG 1g.5gb Device 1: (UUID: MIG-b)"}, "0", ""},
		"no nvidia-smi": {"all", []string{"sh: 1: nvidia-smi: not found"}, "127", "NVIDIA container toolkit"},
		"mismatch":      {"all", []string{"Failed to initialize NVML: Driver/library version mismatch"}, "18", "reboot"},
		"reload":        {"all", []string{"Failed to initialize NVML: Unknown Error"}, "255", "native.cgroupdriver=systemd"},
		"no driver":     {"all", []string{"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."}, "9", "modprobe nvidia"},
		"none":          {"all", []string{"No devices found."}, "0", "No devices found."},
	} {
		t.Run(name, func(t *testing.T) {
			lines := append([]string{"swarmd-probe gpu-list begin"}, tt.list...)
			r := parseProbe(append(lines, "swarmd-probe gpu-exit "+tt.code, "noise"))
			err := judgeGPUs(Spec{GPUs: tt.ask}, r)
			text := ""
			var with *engine.Error
			if errors.As(err, &with) {
				text = with.Error() + ": " + with.Remedy()
			}
			if (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

func TestParseProbe(t *testing.T) {
	r := parseProbe([]string{"noise", "swarmd-probe begin yes", "swarmd-probe socket 5:77 /mnt/x /mnt/x/a b.sock", "swarmd-probe shm tmpfs 65536 0 65536 0% /dev/shm", "swarmd-probe"})
	if r.said["begin"] != "yes" || r.said["end"] != "" || len(r.gpus) != 0 || r.said["shm"] != "tmpfs 65536 0 65536 0% /dev/shm" {
		t.Errorf("got %+v", r)
	}
	if len(r.sockets) != 1 || r.sockets[0] != (socket{5, 77, "/mnt/x", "/mnt/x/a b.sock"}) {
		t.Errorf("got %+v", r.sockets)
	}
}

func TestErrNoImage(t *testing.T) {
	for image, want := range map[string]string{
		"swarm-ml-pyt:latest": "make image", "swarm-ml-tf": "make image", "host:5000/mine": "docker pull host:5000/mine", "mine@sha256:00": "docker pull",
	} {
		var with *engine.Error
		if err := errNoImage(image); !errors.As(err, &with) || !strings.Contains(with.Remedy(), want) {
			t.Errorf("%s: got %v", image, err)
		}
	}
}

func TestExplainStart(t *testing.T) {
	s := Spec{Image: "i", Name: "n", Network: "net", GPUs: "all"}
	for said, want := range map[string]string{
		`Conflict. The container name "/n" is already in use by container "abc".`: "--ml-name",
		"network net not found": "--ml-network",
		`could not select device driver "" with capabilities: [[gpu compute utility]]`:                                       "NVIDIA container toolkit",
		"OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown":      "modprobe nvidia",
		"OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver/library version mismatch": "reboot",
		"OCI runtime create failed: nvidia-container-cli: device error: 7: unknown device: unknown":                          "--gpu",
		"failed to create shim task: OCI runtime create failed: exec: \"run\": executable file not found in $PATH: unknown":  "choose another image",
		"container create: stat /dev/kfd: no such file or directory":                                                         "load the driver",
		"invalid mount config for type \"bind\": bind source path does not exist: /x":                                        "create it",
	} {
		err := explainStart(errors.New("Error response from daemon: "+said), s)
		var with *engine.Error
		if !errors.As(err, &with) || !strings.Contains(with.Remedy(), want) {
			t.Errorf("%s: got %v, want remedy %q", said, err, want)
		}
		if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%q is not a line", err)
		}
	}
	if err := explainStart(fs.ErrExist, s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}
