package container_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dockercontainer "github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// train is a Spec that Check has nothing against.
func (l *lab) train(t *testing.T) container.Spec {
	t.Helper()
	model := hostDir(t, 0o777)
	if err := os.WriteFile(filepath.Join(model, "train.py"), []byte("print('hi')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return container.Spec{
		Node: "sl-1", Scope: l.scope, Image: enginetest.TestImage, User: "1000:1000", DataDir: hostDir(t, 0o755), ModelDir: model, Program: "train.py",
	}
}

// foreign puts a Python package swarmlearning with a module of its own into a folder.
func foreign(t *testing.T, folder, module string) {
	t.Helper()
	dir := filepath.Join(folder, "swarmlearning")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "__init__.py"), "", 0o644)
	writeFile(t, filepath.Join(dir, module), "", 0o644)
}

// wantError demands that a check says all of the words, and leaves nothing behind.
func (l *lab) wantError(t *testing.T, spec container.Spec, words ...string) {
	t.Helper()
	err := l.Check(t.Context(), spec)
	if err == nil {
		t.Fatalf("no error; want %q", words)
	}
	text := err.Error() + ": " + remedy(err)
	t.Log(text)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q lacks %q", text, w)
		}
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func remedy(err error) string {
	var with *engine.Error
	if errors.As(err, &with) {
		return with.Remedy()
	}
	return ""
}

func TestCheckPasses(t *testing.T) {
	l := newLab(t)
	spec := l.train(t)
	if err := os.WriteFile(filepath.Join(spec.DataDir, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Check(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if log := l.log.String(); !strings.Contains(log, "file=secret") {
		t.Errorf("no warning about the file that can not be read: %s", log)
	}
	entries, _ := os.ReadDir(spec.ModelDir)
	if len(entries) != 1 {
		t.Errorf("the check left something in the model directory: %v", entries)
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	// A command of one's own in an image without Python is run unseen.
	bare := l.sh("true")
	bare.Image = "swarm-base:latest"
	enginetest.NeedImage(t, l.engine, bare.Image, "make image")
	if err := l.Check(t.Context(), bare); err != nil {
		t.Error(err)
	}
	if log := l.log.String(); !strings.Contains(log, "no such Python") {
		t.Errorf("not said that nothing was checked: %s", log)
	}
}

func TestCheckRefuses(t *testing.T) {
	l := newLab(t)
	closed, theirs := hostDir(t, 0o700), hostDir(t, 0o700)
	if err := os.Chown(theirs, 4321, 4321); err != nil {
		t.Skipf("needs to be root: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(*container.Spec)
		want   []string
	}{
		"image of ours missing": {func(s *container.Spec) { s.Image = "swarm-ml-pyt:no-such-tag" }, []string{"swarm-ml-pyt:no-such-tag", "make image"}},
		"image for Keras 2":     {func(s *container.Spec) { s.Image = "swarm-ml-tf-legacy:no-such-tag" }, []string{"build it with scripts/images tf-legacy"}},
		"image missing":         {func(s *container.Spec) { s.Image = "nobody-has:this" }, []string{"nobody-has:this", "docker pull nobody-has:this"}},
		"network missing":       {func(s *container.Spec) { s.Network = "no-such-net" }, []string{"no-such-net", "docker network create"}},
		"volume missing":        {func(s *container.Spec) { s.Mounts = []string{"no-such-volume:/v"} }, []string{"no-such-volume", "docker volume create"}},
		"mount source missing":  {func(s *container.Spec) { s.Mounts = []string{"/no/such/dir:/v"} }, []string{"/no/such/dir", "create it"}},
		"data dir missing":      {func(s *container.Spec) { s.DataDir = "/no/such/data" }, []string{"/no/such/data", "create it"}},
		"data unreadable":       {func(s *container.Spec) { s.DataDir = closed }, []string{closed, "1000:1000", "chmod"}},
		"data of another user":  {func(s *container.Spec) { s.DataDir = theirs }, []string{theirs, "--ml-user 4321:4321"}},
		"model not writable":    {func(s *container.Spec) { s.ModelDir = s.DataDir; s.Program = "/etc/passwd" }, []string{"can not be written", "chmod"}},
		"program missing":       {func(s *container.Spec) { s.Program = "nope.py" }, []string{"nope.py", "does not exist"}},
		"program is a dir":      {func(s *container.Spec) { s.Program = "/etc" }, []string{"/etc can not be read"}},
		"no python":             {func(s *container.Spec) { s.Image = "swarm-base:latest" }, []string{"swarm-base:latest has no python3", "swarm-ml-pyt"}},
		"no package":            {func(s *container.Spec) { s.Image, s.Platform = "swarm-python:latest", "TF" }, []string{"swarm-python:latest lacks", "pip", "swarm-ml-tf"}},
		"no GPU":                {func(s *container.Spec) { s.GPUs = "all" }, []string{"GPU"}},
		"no device":             {func(s *container.Spec) { s.Devices = []string{"/dev/nothing"} }, []string{"/dev/nothing"}},
		"too little memory":     {func(s *container.Spec) { s.Memory = 1000 }, []string{"emory limit"}},
		"too many CPUs":         {func(s *container.Spec) { s.CPUs = 5000 }, []string{"CPUs"}},
		"several at once": {func(s *container.Spec) { s.DataDir, s.Program = closed, "nope.py" }, []string{
			"can not be read", "\nprogram /platform/swarmml/model/nope.py does not exist in the container: put it there",
		}},
		"the original's package": {func(s *container.Spec) {
			s.Client, s.Env = launch.ClientOwn, []string{"PYTHONPATH=" + engine.DataDir}
			foreign(t, s.DataDir, "swifrpc_pb2.py")
		}, []string{"swarm-test-ml:latest has the original's", "in /platform/swarmml/data/swarmlearning, ", "take it out and this project's in", "pip"}},
		"another's package": {func(s *container.Spec) { foreign(t, s.ModelDir, "x.py") }, []string{
			"another maker's", "in /platform/swarmml/model/swarmlearning: move it out of the model directory",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := l.train(t)
			tt.change(&spec)
			if strings.HasSuffix(spec.Image, ":latest") {
				enginetest.NeedImage(t, l.engine, spec.Image, "make image")
			}
			l.wantError(t, spec, tt.want...)
		})
	}
}

func TestCheckFindsSocketsBehindLinks(t *testing.T) {
	l := newLab(t)
	dir := hostDir(t, 0o755)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "harmless.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	spec := l.train(t)
	spec.User = "0:0"
	spec.Mounts = []string{dir + ":/mnt/x"}
	if err := l.Check(t.Context(), spec); err != nil {
		t.Errorf("a socket of the user's: %v", err)
	}
	// Another name for the engine's own: no list of paths knows it.
	link := filepath.Join(dir, "link")
	socket := strings.TrimPrefix(l.engine.DaemonHost(), "unix://")
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = []string{link + ":/mnt/innocent"}
	l.wantError(t, spec, link, "root on this host")

	// A second name of the same inode: only what the container sees gives it away, as with links in an SL's container, which
	// does not see the host's paths.
	resolved, err := filepath.EvalSymlinks(socket)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(filepath.Dir(resolved), l.scope)
	if err := os.Link(resolved, second); err != nil {
		t.Skipf("needs to be root: %v", err)
	}
	defer os.Remove(second)
	spec.User, spec.Mounts = "1000:1000", []string{second + ":/mnt/innocent"}
	l.wantError(t, spec, second, "root on this host")
}

func TestNameInUse(t *testing.T) {
	l := newLab(t)
	got := newLines()
	spec := l.sh("echo up; sleep 1000")
	spec.Name, spec.Line = "swarm-test-"+l.scope, got.add
	ctx, cancel := context.WithCancel(t.Context())
	p, err := l.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait()
	defer cancel()
	got.await(t, "up")
	other := spec
	other.Node = "sl-2"
	if err := l.Check(t.Context(), other); err == nil || !strings.Contains(err.Error(), spec.Name+" is in use") {
		t.Errorf("got %v, want that the name is in use", err)
	}
	_, err = l.Start(t.Context(), other)
	if err == nil || !strings.Contains(err.Error(), spec.Name+" is in use") {
		t.Errorf("got %v, want that the name is in use", err)
	}
	if got := remedy(err); !strings.Contains(got, "--ml-name") {
		t.Errorf("remedy is %q", got)
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 1 {
		t.Errorf("%v is left, want the first one only", left)
	}
}

func TestStartSweepsOldChecks(t *testing.T) {
	l := newLab(t)
	// A daemon was killed while it checked.
	made, err := l.engine.ContainerCreate(t.Context(), &dockercontainer.Config{
		Image: enginetest.TestImage, Cmd: []string{"true"},
		Labels: map[string]string{engine.LabelRole: engine.RoleProbe, engine.LabelScope: l.scope, engine.LabelNode: "sl-1"},
	}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	// It might be that of a daemon of the same name that checks right now.
	if err := l.Check(t.Context(), l.train(t)); err != nil {
		t.Error(err)
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 1 {
		t.Errorf("%v is left of %s", left, made.ID)
	}
	l.start(t, l.sh("true")).Wait()
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

// TestClient: whose client a program has is found where it is not said.
func TestClient(t *testing.T) {
	l := newLab(t)
	spec := l.train(t)
	if client, err := l.Client(t.Context(), spec); client != launch.ClientOwn || err != nil {
		t.Errorf("an image of ours: %q, %v", client, err)
	}
	foreign(t, spec.ModelDir, "swifrpc_pb2.py")
	if client, err := l.Client(t.Context(), spec); client != launch.ClientOriginal || err != nil {
		t.Errorf("the original's client beside the program: %q, %v", client, err)
	}
}
