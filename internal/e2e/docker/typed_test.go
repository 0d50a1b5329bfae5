package docker_test

import (
	"bytes"
	"log/slog"
	"os"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// A caller that knows no command line starts an SN, and two SLs with their programs, each in a container, and has the engine tell what
// came of them: they train to the same model, and what they leave is found and removed as if scripts had started them.
func TestSwarmOfTypedOptions(t *testing.T) {
	s := newSite(t)
	s.makeNet()
	e2etest.Start(t, "authority", s.dir, nil, "swarmd", "run-authority", "--dir", s.path("ca")).Sees("embedded authority started")
	env := start.Env{Getenv: func(k string) string {
		if k == "SWARM_SCOPE" {
			return s.scope
		}
		return os.Getenv(k)
	}, Version: "test"}
	node := func(name string) start.Node {
		return start.Node{Name: name, Host: name, Identity: "embedded=" + s.path("ca"), Container: component.Options{Network: s.net, Detach: true}}
	}
	sn := start.SN{Node: node(s.name("sn1")), SentinelHost: s.name("sn1"), FoundAtOnce: true}
	spec, err := sn.Component(env)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	user := component.IO{Stdout: &said, Stderr: &said, Getenv: env.Getenv, Log: slog.New(slog.NewTextHandler(&said, nil))}
	if _, err := component.Run(t.Context(), s.engine, spec, user); err != nil {
		t.Fatalf("start SN: %v\n%s", err, &said)
	}
	var digests []string
	sls := []string{s.name("sl1"), s.name("sl2")}
	for i, name := range sls {
		(&e2etest.Swarm{T: t, Dir: s.dir}).CopyProgram(s.path(name))
		if err := os.Chmod(s.path(name), 0o777); err != nil { // the program's user is not ours
			t.Fatal(err)
		}
		sl := start.SL{
			Node: node(name), SNs: []string{sn.Name}, ModelDir: s.path(name), Program: "train.py",
			ML: start.ML{Image: enginetest.TestImage, User: "4242:4242", Memory: 1 << 30, Env: []string{"SEED=" + string(rune('1'+i)), "BATCHES=10"}},
		}
		if code, err := sl.Run(t.Context(), s.engine, env, user); err != nil || code != 0 {
			t.Fatalf("start SL: exit code %d, %v\n%s", code, err, &said)
		}
	}
	for _, name := range sls {
		c, err := s.engine.ContainerInspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for label, want := range map[string]string{engine.LabelRole: "sl", engine.LabelNode: name, engine.LabelScope: s.scope, engine.LabelPlatform: "TF", engine.LabelSwarmd: "test"} {
			if got := c.Config.Labels[label]; got != want {
				t.Errorf("%s: label %s is %q, want %q", name, label, got, want)
			}
		}
		code, log := s.waits(name)
		if code != 0 {
			t.Fatalf("%s ended with exit code %d:\n%s", name, code, log)
		}
		digests = append(digests, finalDigest(t, name, log))
	}
	if digests[0] != digests[1] {
		t.Errorf("the final models differ: %v", digests)
	}
	s.stopsClean()
}
