package container_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

func TestCheckEndsWithItsContext(t *testing.T) {
	l := newLab(t)
	spec := l.train(t)
	// A probe that can not end: Python is replaced by something that sleeps.
	spec.Entrypoint = []string{"python3"}
	spec.Env = []string{"PATH=/platform/swarmml/model:/usr/bin:/bin"}
	writeFile(t, spec.ModelDir+"/python3", "#!/bin/sh\necho > /platform/swarmml/model/began\nsleep 1000\n", 0o755)
	ctx, cancel := context.WithCancel(t.Context())
	checked := make(chan error, 1)
	go func() { checked <- l.Check(ctx, spec) }()
	awaitFile(t, spec.ModelDir+"/began")
	cancel()
	if err := <-checked; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(enginetest.Timeout)
	defer limit.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s does not come", path)
		}
	}
}
