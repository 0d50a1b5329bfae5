package isolation_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestPodman runs programs through Podman's Docker-compatible socket: isolation, output, exit, limits, stop, finding again.
func TestPodman(t *testing.T) {
	docker := enginetest.Engine(t)
	host := enginetest.Podman(t)
	t.Setenv("DOCKER_HOST", host)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	e := enginetest.Engine(t)
	o := newOther(t, docker, scope)
	o.Engines = append(o.Engines, strings.TrimPrefix(host, "unix://"))
	t.Run("no way out", func(t *testing.T) { o.noWayOut(t, e, scope, "1000:1000") })
	t.Run("no isolation", func(t *testing.T) { o.out(t, attempts(t, o.withoutIsolation(t, e, scope, true))) })
	t.Run("exit", func(t *testing.T) {
		exit, text := run(t, e, script(t, o, scope, "import sys\nprint('one')\nprint('two', file=sys.stderr)\nsys.exit(7)\n"))
		if exit.ExitCode != 7 || exit.Signal != 0 || !strings.Contains(text, "one") || !strings.Contains(text, "two") {
			t.Errorf("%s, said %q", exit, text)
		}
	})
	t.Run("memory", func(t *testing.T) {
		s := script(t, o, scope, "import numpy\nx = [numpy.ones(1 << 20) for _ in range(1 << 10)]\n")
		s.Memory = 64 << 20
		if exit, text := run(t, e, s); !strings.Contains(exit.String(), "memory") || !strings.Contains(exit.String(), "64 MiB") {
			t.Errorf("%s\n%s", exit, text)
		}
	})
	t.Run("check", func(t *testing.T) { o.podmanChecks(t, e, scope) })
	t.Run("stop", func(t *testing.T) { o.podmanStops(t, e, scope) })
}

// script is a program of a few lines.
func script(t *testing.T, o *other, scope, text string) container.Spec {
	t.Helper()
	f := o.folders(t, 1000)
	if err := os.WriteFile(filepath.Join(f.model, "script.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := spec(scope, "1000:1000", f)
	s.Program = "script.py"
	return s
}

// podmanChecks holds what Podman says in other words, or does not refuse itself: it passes over GPUs.
func (o *other) podmanChecks(t *testing.T, e *engine.Engine, scope string) {
	t.Helper()
	l := container.New(e, logger(t))
	for _, test := range []struct {
		name string
		bend func(*container.Spec)
		want string
	}{
		{"network", func(s *container.Spec) { s.Network = "no-such-net" }, "no-such-net"},
		{"image", func(s *container.Spec) { s.Image = "no-such-image:1" }, "no-such-image:1"},
		{"GPU", func(s *container.Spec) { s.GPUs = "all" }, "GPU"},
	} {
		s := script(t, o, scope, "")
		test.bend(&s)
		err := l.Check(t.Context(), s)
		t.Logf("%s: %v", test.name, err)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
}

// podmanStops adopts a running program and stops it.
func (o *other) podmanStops(t *testing.T, e *engine.Engine, scope string) {
	t.Helper()
	l := container.New(e, logger(t))
	s := script(t, o, scope, "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: (print('bye'), sys.exit(3)))\nprint('ready')\nwhile True: time.sleep(1)\n")
	ready := make(chan struct{}, 16)
	var out lines
	var delivered atomic.Pointer[time.Time]
	s.Line = out.add
	s.Delivered = func(to time.Time) {
		delivered.Store(&to)
		ready <- struct{}{}
	}
	p, err := l.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ready:
	case <-p.Done():
		t.Fatalf("%s: %s", p.Wait(), out.text())
	case <-time.After(enginetest.Timeout):
		t.Fatal("no line")
	}
	found, err := l.Find(t.Context(), s.Node, scope)
	if err != nil || len(found) != 1 || found[0].State != "running" || found[0].Incarnation != p.Incarnation() {
		t.Fatalf("found %+v, %v", found, err)
	}
	var later lines
	second, err := l.Adopt(t.Context(), found[0], container.Spec{LogSince: *delivered.Load(), Line: later.add})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Timeout)
	defer cancel()
	stopped := make(chan struct{})
	go func() { defer close(stopped); p.Stop(10 * time.Second) }()
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Fatal("the program does not stop")
	}
	whole := 0
	for _, x := range []struct {
		exit launch.Exit
		said string
	}{{p.Wait(), out.text()}, {second.Wait(), later.text()}} {
		switch x.exit.ExitCode {
		case 3:
			if strings.HasSuffix(x.said, "bye") {
				whole++
			}
		case -1: // the first to look removes it: the second may find no container, or its end without the last lines
		default:
			t.Errorf("exit: %s", x.exit)
		}
	}
	if whole == 0 {
		t.Errorf("nobody has the last line: %s, said %q; %s, said %q", p.Wait(), out.text(), second.Wait(), later.text())
	}
}
