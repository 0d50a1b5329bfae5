package isolation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestSharedMemory overfills /dev/shm in the ways of data loaders, and says so where there was room enough.
func TestSharedMemory(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	const mapped = `
import numpy
a = numpy.memmap("/dev/shm/batch", dtype="u1", mode="w+", shape=(64 << 20,))
a[:] = 1
print("fits")
`
	// A worker dies of the signal, and its parent says so as PyTorch's DataLoader does.
	const worker = `
import os, signal
pid = os.fork()
if pid == 0:
    exec(MAPPED)
    os._exit(0)
status = os.waitpid(pid, 0)[1]
if os.WIFSIGNALED(status):
    raise RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(os.WTERMSIG(status))}.")
print("fits")
`
	// PyTorch, which writes where it does not map, says it in these words.
	const written = `
import os
try:
    with open("/dev/shm/torch_7_2_0", "wb") as f:
        for _ in range(64):
            f.write(bytes(1 << 20))
except OSError as e:
    raise RuntimeError(f"unable to write to file </torch_7_2_0>: {os.strerror(e.errno)} ({e.errno})")
print("fits")
`
	for _, test := range []struct {
		name, text string
		shm        int64
		fits       bool
	}{
		{"mapped", mapped, 16 << 20, false},
		{"worker", strings.ReplaceAll(worker, "MAPPED", `"""`+mapped+`"""`), 16 << 20, false},
		{"written", written, 16 << 20, false},
		{"default size", mapped, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := idle(t, scope)
			s.ShmSize = test.shm
			if err := os.WriteFile(filepath.Join(s.ModelDir, s.Program), []byte(test.text), 0o644); err != nil {
				t.Fatal(err)
			}
			exit, text := run(t, e, s)
			t.Logf("%s; %s", exit, text)
			said := strings.Contains(exit.String(), "shared memory is too small for the data loaders (16 MiB): raise --ml-shm-size")
			if said == test.fits || (exit.ExitCode == 0) != test.fits || strings.Contains(text, "fits") != test.fits {
				t.Errorf("fits: %v; %s; said %q", test.fits, exit, text)
			}
		})
	}
}
