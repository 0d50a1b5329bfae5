package container_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

func TestOnPodman(t *testing.T) {
	t.Parallel()
	host := enginetest.Podman(t)
	l := &lab{engine: enginetest.Dial(t, host), scope: "podman", log: &syncBuffer{}}
	l.Launcher = container.New(l.engine, slog.New(slog.NewTextHandler(l.log, nil)))
	if err := l.Check(t.Context(), l.train(t)); err != nil {
		t.Error(err)
	}
	var delivered kept
	got := newLines()
	spec := l.sh(counting)
	spec.Delivered = delivered.put
	spec.Line, spec.Memory, spec.CPUs = got.add, 256<<20, 1
	first, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "300")
	first.Abandon()
	found := l.find(t)
	if len(found) != 1 || found[0].State != "running" {
		t.Fatalf("found %+v", found)
	}
	spec.LogSince = delivered.get()
	second, err := l.Adopt(t.Context(), found[0], spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "2000")
	second.Stop(enginetest.Timeout)
	exit := second.Wait()
	wantUnbroken(t, got.all())
	if exit.String() != "exit code 5" {
		t.Errorf("got %s with %q, want exit code 5", exit, exit.Tail)
	}
	for script, want := range map[string]string{
		"exit 3": "exit code 3", "exec no-such-command": "not in the image", `exec python3 -c 'x = bytearray(400 << 20)'`: "--ml-memory",
	} {
		spec := l.sh(script)
		spec.Memory = 64 << 20
		if exit := l.start(t, spec).Wait(); !strings.Contains(exit.String(), want) {
			t.Errorf("%s: got %s, want %q", script, exit, want)
		}
	}
	for want, change := range map[string]func(*container.Spec){
		"nobody:x is not at":         func(s *container.Spec) { s.Image = "nobody:x" },
		"no-net does not exist":      func(s *container.Spec) { s.Network = "no-net" },
		"/no/such does not exist":    func(s *container.Spec) { s.DataDir = "/no/such" },
		"no GPU reached":             func(s *container.Spec) { s.GPUs = "all" },
		"bad device":                 func(s *container.Spec) { s.Devices = []string{"/dev/nothing"} },
		"can not be read":            func(s *container.Spec) { s.DataDir = hostDir(t, 0o700) },
		"gives the program the cont": func(s *container.Spec) { s.Mounts = []string{strings.TrimPrefix(host, "unix://") + ":/x"} },
	} {
		spec := l.train(t)
		change(&spec)
		if err := l.Check(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := os.Stat("/no/such"); err == nil {
		t.Error("a missing directory was made")
	}
	if found := l.find(t); len(found) != 0 {
		t.Errorf("found %v after all", found)
	}
}
