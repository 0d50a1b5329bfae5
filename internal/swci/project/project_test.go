package project_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/project"
)

var placeholder = regexp.MustCompile(`@[A-Z]+@`)

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryFrameworkHasWholeProjects(t *testing.T) {
	if diff := cmp.Diff([]string{"pyt", "tf", "numpy", "sklearn", "hf"}, project.Names()); diff != "" {
		t.Errorf("frameworks (-want +got):\n%s", diff)
	}
	for _, name := range project.Names() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "deep", "mine")
			p, err := project.Write(dir, strings.ToUpper(name), "swarmctl")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"README.md", "run.sh", "model/train.py", "model/data.py"}, p.Files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			command := "local run --peers 3 --platform " + p.Framework.Platform + " --model-dir model --model-program train.py --out out --baseline"
			readme := read(t, dir, "README.md")
			for _, want := range []string{"# mine: a " + p.Framework.Title, "    swarmctl " + command + "\n"} {
				if !strings.Contains(readme, want) {
					t.Errorf("README.md lacks %q:\n%s", want, readme)
				}
			}
			if run := read(t, dir, "run.sh"); !strings.Contains(run, `exec "$SWARMCTL" `+command+` "$@"`) {
				t.Errorf("run.sh has another command:\n%s", run)
			}
			for _, file := range p.Files {
				if text := read(t, dir, file); placeholder.MatchString(text) {
					t.Errorf("%s has a placeholder that is not filled:\n%s", file, text)
				}
			}
		})
	}
}

func TestRunCallsWhatItIsTold(t *testing.T) {
	t.Parallel()
	place := filepath.Join(t.TempDir(), "it's $HOME `a` place")
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(place, "swarmctl")
	if err := os.WriteFile(said, []byte("#!/bin/sh\necho \"$PWD $*\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(place, "project")
	if _, err := project.Write(dir, "numpy", said); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(dir, "run.sh"), "--peers", "5").CombinedOutput()
	want := dir + " local run --peers 3 --platform NUMPY --model-dir model --model-program train.py --out out --baseline --peers 5\n"
	if err != nil || string(out) != want {
		t.Errorf("run.sh: %v\ngot  %swant %s", err, out, want)
	}
}

func TestNothingIsWrittenOver(t *testing.T) {
	dir := t.TempDir()
	if _, err := project.Write(dir, "pyt", "swarmctl"); err != nil {
		t.Fatalf("an empty folder: %v", err)
	}
	before := read(t, dir, "model", "train.py")
	_, err := project.Write(dir, "tf", "swarmctl")
	if exit.Code(err) != exit.Conflict || exit.Hint(err) == "" {
		t.Errorf("a folder that is not empty: exit code %d, %v", exit.Code(err), err)
	}
	if read(t, dir, "model", "train.py") != before {
		t.Error("the program was written over")
	}
	if _, err := project.Write(filepath.Join(dir, "README.md"), "pyt", "swarmctl"); err == nil {
		t.Error("a file was taken for a folder")
	}
	other := filepath.Join(dir, "other")
	if _, err := project.Write(other, "jax", "swarmctl"); exit.Code(err) != exit.Usage {
		t.Errorf("an unknown framework: exit code %d, %v", exit.Code(err), err)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a project that can't be made left a folder")
	}
}
