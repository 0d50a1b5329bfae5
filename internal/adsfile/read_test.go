package adsfile_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/adsfile"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

var update = flag.Bool("update", false, "write what comes out as what is wanted")

// examples are the files in testdata/good.
func examples(t testing.TB) (names []string) {
	t.Helper()
	all, err := filepath.Glob("testdata/good/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if filepath.Ext(name) != ".want" {
			names = append(names, name)
		}
	}
	if len(names) < 10 {
		t.Fatalf("there are %d examples", len(names))
	}
	return names
}

// Each file becomes the job beside it, and all that is ignored of it, or is another thing, is said.
func TestExamples(t *testing.T) {
	for _, name := range examples(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !adsfile.Is(raw) {
				t.Error("it is not taken for a file of Oracle's")
			}
			got, err := adsfile.Read(filepath.Base(name), raw, adsfile.Images{})
			if err != nil {
				t.Fatal(err)
			}
			text := "# " + got.From + "\n"
			for _, n := range got.Notes {
				text += "# " + n.Error() + "\n"
			}
			if got.Only != "" {
				text += "# of its folder: " + got.Only + "\n"
			}
			text += got.Job.Text()
			if *update {
				if err := os.WriteFile(name+".want", []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name + ".want")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); d != "" {
				t.Error(d)
			}
			runs(t, reads(t, got.Job))
		})
	}
}

// reads finds that a job reads back as itself.
func reads(t *testing.T, j *jobfile.Job) *jobfile.Job {
	t.Helper()
	again, err := jobfile.Read("", []byte(j.Text()))
	if err != nil {
		t.Fatal(err)
	}
	if again.Text() != j.Text() {
		t.Error(cmp.Diff(j.Text(), again.Text()))
	}
	return again
}

// runs finds that a job can be run.
func runs(t *testing.T, j *jobfile.Job) {
	t.Helper()
	w, err := framework.WorldOf(j)
	if err != nil {
		t.Fatal(err)
	}
	p := framework.Placement{Run: "x-1"}
	for rank := range w.Size() {
		p.Members = append(p.Members, framework.Place{Host: "h", Name: framework.NameOf(rank), Address: fmt.Sprintf("10.0.0.%d", rank+1), WorkDir: "/run/swarm/work/x-1"})
	}
	if _, err := w.Programs(p); err != nil {
		t.Error(err)
	}
}
