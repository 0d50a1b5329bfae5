package launch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
)

func noEnv(string) string { return "" }

// fakePython puts a python3 of the given shell script first in PATH.
func fakePython(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "python3")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return path
}

func TestFindPythonTakesTheOneWithTheFramework(t *testing.T) {
	path := fakePython(t, `[ "$2" = "import torch" ]`)
	got, err := launch.FindPython(t.Context(), "pyt", "", noEnv)
	if err != nil || got != path {
		t.Errorf("got %q, %v, want %q", got, err, path)
	}
}

func TestFindPythonNamesWhatItTried(t *testing.T) {
	path := fakePython(t, `echo "ModuleNotFoundError: No module named 'tensorflow'" >&2; exit 1`)
	if exec.Command("/usr/bin/python3", "-c", "import tensorflow").Run() == nil {
		t.Skip("/usr/bin/python3 has tensorflow")
	}
	_, err := launch.FindPython(t.Context(), "TF", "", noEnv)
	if err == nil {
		t.Fatal("found one")
	}
	for _, want := range []string{path, "No module named 'tensorflow'", "/usr/bin/python3", "pip install tensorflow-cpu", "--python"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
}

func TestFindPythonAsksEachOnce(t *testing.T) {
	if exec.Command("/usr/bin/python3", "-c", "import tensorflow").Run() == nil {
		t.Skip("/usr/bin/python3 has tensorflow")
	}
	t.Setenv("PATH", "/usr/bin")
	_, err := launch.FindPython(t.Context(), "TF", "", noEnv)
	if err == nil || !errors.Is(err, launch.ErrNoneImports) || strings.Count(err.Error(), "/usr/bin/python3: ") != 1 {
		t.Errorf("got %v", err)
	}
}

func TestFindPythonChosen(t *testing.T) {
	path := fakePython(t, "exit 1")
	if got, err := launch.FindPython(t.Context(), "PYT", path, noEnv); err != nil || got != path {
		t.Errorf("got %q, %v", got, err)
	}
	getenv := func(k string) string { return map[string]string{"SWARM_PYTHON": path}[k] }
	if got, err := launch.FindPython(t.Context(), "PYT", "", getenv); err != nil || got != path {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := launch.FindPython(t.Context(), "PYT", "/nonexistent/python", noEnv); err == nil || !strings.Contains(err.Error(), "--python") {
		t.Errorf("got %v, want an error that names the flag", err)
	}
	if _, err := launch.FindPython(t.Context(), "MXNET", "", noEnv); err == nil {
		t.Error("took an unknown platform")
	}
}

// pythonWith returns a python3, and an environment in which it finds what is in folder, and nothing else but its own.
func pythonWith(t *testing.T, folder string) (python string, env []string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	env = []string{"PATH=" + os.Getenv("PATH")}
	if folder != "" {
		env = append(env, "PYTHONPATH="+folder)
	}
	return python, env
}

// folderOf writes files into a folder of their own.
func folderOf(t *testing.T, files fstest.MapFS) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

var (
	ourPackage = fstest.MapFS{
		"swarmlearning/__init__.py": {Data: []byte("ANSWER = 42\n")},
		"swarmlearning/_params.py":  {Data: []byte("")},
		"swarmlearning/sub/x.py":    {Data: []byte("")},
	}
	foreignPackage = fstest.MapFS{"swarmlearning/__init__.py": {Data: []byte("raise SystemExit('foreign code runs')\n")}}
)

// imports runs a program in folder that prints the package's answer.
func imports(t *testing.T, python string, env []string, pkg launch.Package) launch.Exit {
	t.Helper()
	env, err := launch.ProgramEnv(launch.EnvConfig{Inherit: env, Package: pkg})
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, launch.Spec{Name: "p", Path: python, Args: []string{"-c", "import swarmlearning; print(swarmlearning.ANSWER)"}, Env: env})
	return p.Wait()
}

func TestFindPackage(t *testing.T) {
	python, env := pythonWith(t, "")
	dir, beside := t.TempDir(), t.TempDir()
	pkg, err := launch.FindPackage(t.Context(), python, env, beside, ourPackage, dir)
	if err != nil {
		t.Fatal(err)
	}
	if pkg.Path == "" || pkg.Foreign != "" {
		t.Skipf("a swarmlearning package is installed in this python: %+v", pkg)
	}
	again, err := launch.FindPackage(t.Context(), python, env, beside, ourPackage, dir)
	if err != nil || again != pkg {
		t.Errorf("a second time: %+v, %v, want %+v", again, err, pkg)
	}
	if diff := cmp.Diff(imports(t, python, env, pkg), launch.Exit{Tail: []string{"42"}}); diff != "" {
		t.Errorf("exit (-got +want):\n%s", diff)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("%d entries in the folder, want 1", len(entries))
	}
	// What is there already counts as installed, also beside the program.
	_, installed := pythonWith(t, pkg.Path)
	if got, err := launch.FindPackage(t.Context(), python, installed, pkg.Path, ourPackage, dir); err != nil || got != (launch.Package{}) {
		t.Errorf("got %+v, %v, want nothing to add", got, err)
	}
}

// TestForeignPackage: a package of the same name that another maker has installed is found without being run, and gives way.
func TestForeignPackage(t *testing.T) {
	folder := folderOf(t, foreignPackage)
	python, env := pythonWith(t, folder)
	pkg, err := launch.FindPackage(t.Context(), python, env, t.TempDir(), ourPackage, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(folder, "swarmlearning"); pkg.Foreign != want || pkg.Path == "" {
		t.Errorf("got %+v, want %s found", pkg, want)
	}
	if diff := cmp.Diff(imports(t, python, env, pkg), launch.Exit{Tail: []string{"42"}}); diff != "" {
		t.Errorf("exit (-got +want):\n%s", diff)
	}
}

// TestForeignPackageBesideTheProgram: Python looks there first, so nothing can be put before it.
func TestForeignPackageBesideTheProgram(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{"package": foreignPackage, "module": {"swarmlearning.py": {}}} {
		t.Run(name, func(t *testing.T) {
			python, env := pythonWith(t, "")
			folder := folderOf(t, files)
			_, err := launch.FindPackage(t.Context(), python, env, folder, ourPackage, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "move it to another folder") {
				t.Errorf("got %v, want an error that names %s", err, folder)
			}
		})
	}
}

func TestProgramEnv(t *testing.T) {
	got, err := launch.ProgramEnv(launch.EnvConfig{
		Inherit: []string{
			"PATH=/bin", "SWARM_TOKEN=secret", "SPIFFE_ENDPOINT_SOCKET=unix:///x", "CUDA_VISIBLE_DEVICES=1", "PYTHONPATH=/own",
			"SWARM_HINT=h", "NOTIFY_SOCKET=/n", "odd", "A=daemon",
		},
		DataDir: "/d", ModelDir: "/m", BridgeDir: "/b", Peer: "sl-0", Package: launch.Package{Path: "/pkg"},
		Extra: []string{"A=1", "A=2", "B=x=y", "SWARM_HINT", "UNSET_ONE"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATH=/bin", "CUDA_VISIBLE_DEVICES=1", "PYTHONPATH=/own:/pkg", "A=2", "PYTHONUNBUFFERED=1", "DATA_DIR=/d", "MODEL_DIR=/m",
		"SWARM_BRIDGE_DIR=/b", "SWARM_PEER=sl-0", "B=x=y", "SWARM_HINT=h",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("environment (-got +want):\n%s", diff)
	}
	if _, err := launch.ProgramEnv(launch.EnvConfig{Extra: []string{"=x"}}); err == nil {
		t.Error("took =x")
	}
}

func TestCheckProgram(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "p.py")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ model, data, program, want string }{
		"good":               {dir, dir, "p.py", ""},
		"absolute":           {dir, "", file, ""},
		"no model directory": {"", dir, "p.py", "--model-dir"},
		"model is missing":   {dir + "/x", dir, "p.py", "does not exist"},
		"model is a file":    {file, dir, "p.py", "is a file"},
		"data is missing":    {dir, dir + "/y", "p.py", "--data-dir"},
		"program is missing": {dir, dir, "q.py", "q.py does not exist"},
		"program is a dir":   {dir, dir, ".", "is not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := launch.CheckProgram(tt.model, tt.data, tt.program)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
