package isolation_test

import (
	_ "embed" // the stand-in
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// hook stands in for hardware that the machines of our tests lack.
//
//go:embed testdata/nvidia-container-runtime-hook
var hook []byte

// hardware is what the stand-in pretends.
type hardware struct {
	GPUs   int    `json:"gpus"`
	Refuse string `json:"refuse"` // what the hook says instead of letting the container start
	Says   string `json:"says"`   // what nvidia-smi -L prints in the container
	Exit   int    `json:"exit"`
}

const (
	gpu0 = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)"
	gpu1 = "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c6d4f5ae-2e4c-4a53-9bd2-5bbd1a3d9d11)"
)

// remedy is an error as the user sees it.
func remedy(err error) string {
	var with interface{ Remedy() string }
	if errors.As(err, &with) {
		return err.Error() + ": " + with.Remedy()
	}
	return err.Error()
}

// oneLine wants an error that is one line with all the words.
func oneLine(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", words)
	}
	text := remedy(err)
	t.Log(text)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q has no %q", text, w)
		}
	}
	if strings.Contains(text, "\n") || len(text) > 1000 {
		t.Errorf("%q is not one short line", text)
	}
}

// TestNoGPU asks a machine for GPUs that has none.
func TestNoGPU(t *testing.T) {
	e := enginetest.Engine(t)
	if path, err := exec.LookPath("nvidia-container-runtime-hook"); err == nil {
		t.Logf("the machine has %s: nothing to see here", path)
		return
	}
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	s := idle(t, scope)
	s.GPUs = "all"
	l := container.New(e, logger(t))
	words := []string{"could not select device driver", "install the NVIDIA container toolkit", "leave --gpu out"}
	oneLine(t, l.Check(t.Context(), s), words...)
	_, err := l.Start(t.Context(), s)
	oneLine(t, err, words...)
}

// idle is a program that does nothing.
func idle(t *testing.T, scope string) container.Spec {
	t.Helper()
	top := t.TempDir()
	f := folders{filepath.Join(top, "model"), filepath.Join(top, "data"), filepath.Join(top, "bridge")}
	err := errors.Join(
		os.Mkdir(f.model, 0o777), os.Chmod(f.model, 0o777), os.Mkdir(f.data, 0o755), os.Mkdir(f.bridge, 0o711),
		os.WriteFile(filepath.Join(f.model, "script.py"), []byte("import subprocess\nprint(subprocess.run(['nvidia-smi', '-L'], capture_output=True, text=True).stdout)\n"), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	s := spec(scope, "1000:1000", f)
	s.Program = "script.py"
	return s
}

// TestGPUs breaks GPUs in the known ways, at an engine with a stand-in for the driver.
func TestGPUs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-container-runtime-hook"), hook, 0o755); err != nil {
		t.Fatal(err)
	}
	e := enginetest.Private(t, enginetest.Path(dir)).Engine()
	l := container.New(e, logger(t))
	two := hardware{GPUs: 2, Says: gpu0 + "\n" + gpu1}
	tests := []struct {
		name, gpus string
		hardware   hardware
		want       []string // nil: no error
	}{
		{"two of two", "0,1", two, nil},
		{"all", "all", two, nil},
		{"one too many", "0,2", two, []string{"a GPU that was asked for does not exist", "unknown device", "nvidia-smi -L on the host lists them"}},
		{"one fell off the bus", "0,1", hardware{GPUs: 2, Says: gpu0}, []string{"--gpu 0,1 asks for 2 GPUs, the container has 1"}},
		{"none listed", "all", hardware{GPUs: 2}, []string{"lists none"}},
		{
			"mismatch, said by the hook", "all",
			hardware{Refuse: "initialization error: nvml error: driver/library version mismatch"},
			[]string{"different versions", "reboot"},
		},
		{
			"mismatch, said by nvidia-smi", "all",
			hardware{GPUs: 2, Says: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183", Exit: 18},
			[]string{"different versions", "535.183", "reboot"},
		},
		{"daemon-reload", "all", hardware{GPUs: 2, Says: "Failed to initialize NVML: Unknown Error", Exit: 255}, []string{"daemon-reload", "cgroup"}},
		{"no driver", "all", hardware{Refuse: "initialization error: nvml error: driver not loaded"}, []string{"the GPU driver is not loaded", "modprobe nvidia"}},
		{
			"driver hangs", "all",
			hardware{GPUs: 2, Says: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.", Exit: 9},
			[]string{"the GPU driver is not loaded", "nvidia-smi works on the host"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, err := json.Marshal(test.hardware)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "scenario.json"), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := idle(t, "gpus")
			s.GPUs = test.gpus
			err = l.Check(t.Context(), s)
			if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); string(asked) != test.gpus {
				t.Errorf("the driver was asked for GPUs %q, want %q", asked, test.gpus)
			}
			if test.want != nil {
				oneLine(t, err, test.want...)
				return
			}
			if err != nil {
				t.Fatal(remedy(err))
			}
			if exit, text := run(t, e, s); exit.ExitCode != 0 || !strings.Contains(text, gpu0) || !strings.Contains(text, gpu1) {
				t.Errorf("%s, said %q", exit, text)
			}
		})
	}
}
