package swci_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

// TestExplainShowsWhatAnImportBecomes: a train.yaml of ads opctl is taken by what is in it.
func TestExplainShowsWhatAnImportBecomes(t *testing.T) {
	out, _ := must(t, "explain", "job", "../adsfile/testdata/good/dask.yaml")
	const golden = "testdata/explain_ads.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out, "\n")); d != "" {
		t.Error(d)
	}
	out, _ = must(t, "explain", "job", "../adsfile/testdata/good/dask.yaml", "-o", "json", "--replicas", "worker=3", "-e", "nprocs=1", "--network", "private")
	var got jobs.Explained
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Imported.From != "ADS, kind: distributed" || len(got.Imported.Notes) < 10 || len(got.Members) != 5 || !got.Signed.Together {
		t.Errorf("got %+v, %v", got, err)
	}
}

// imports writes a file of Oracle's with what it names, into a folder of its own.
func imports(t *testing.T, file string, others map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "train.yaml")
	others["train.yaml"] = file
	for name, body := range others {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestImportsHaveTheirFiles: a folder or a file that such a file names travels with the job, and config.ini beside it says what @image is.
func TestImportsHaveTheirFiles(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		others     map[string]string
		options    string
		want       []string
	}{
		{
			"a folder", "kind: job\nspec: {name: x, runtime: {type: python, spec: {scriptPathURI: src, entrypoint: a.py}}}\n",
			map[string]string{"src/a.py": "print()\n", "src/b.py": "\n"},
			"",
			[]string{"a.py: 8 bytes\n", "b.py: 1 bytes\n", ": python3 a.py\n"},
		},
		{
			"a working directory", "kind: job\nspec: {name: x, runtime: {type: python, spec: {scriptPathURI: src, workingDir: src, entrypoint: pkg/a.py}}}\n",
			map[string]string{"src/pkg/a.py": "print()\n"},
			"",
			[]string{": python3 pkg/a.py\n"},
		},
		{
			"a file as ADS finds it", "kind: job\nspec: {name: x, runtime: {type: python, spec: {scriptPathURI: src, entrypoint: src/a.py}}}\n",
			map[string]string{"src/a.py": "print()\n"},
			"",
			[]string{": python3 a.py\n"},
		},
		{
			"a file", "kind: job\nspec: {name: x, runtime: {type: script, spec: {scriptPathURI: src/a.py}}}\n",
			map[string]string{"src/a.py": "print()\n", "src/b.py": "\n"},
			"",
			[]string{"\nSource\na.py: 8 bytes\n\n", ": python3 a.py\n"},
		},
		{
			"an image that was built", "kind: distributed\nspec: {cluster: {kind: pytorch, spec: {image: '@image', workDir: w}}, runtime: {spec: {entryPoint: a.py}}}\n",
			map[string]string{"config.ini": "[main]\ntag = 1.0\nregistry = registry.example/ns/mine\ndockerfile = x\n"},
			"",
			[]string{"spec.cluster.spec.image @image becomes registry.example/ns/mine:1.0, as config.ini says\n", "image registry.example/ns/mine:1.0\n"},
		},
		{
			"an image that is said", "kind: distributed\nspec: {cluster: {kind: pytorch, spec: {image: '@image', workDir: w}}, runtime: {spec: {entryPoint: a.py}}}\n",
			map[string]string{},
			"--image mine:2",
			[]string{"image mine:2\n"},
		},
	} {
		out, _ := must(t, append([]string{"explain", "job", imports(t, tt.file, tt.others)}, strings.Fields(tt.options)...)...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing:\n%s", tt.name, want, out)
			}
		}
	}
}

func TestImportsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		file, want string
		code       int
	}{
		{"kind: job\nspec: {name: x, runtime: {type: script, spec: {scriptPathURI: a.py}}}\n", "a.py: no such file", exit.NotFound},
		{"kind: job\nspec: {name: x, runtime: {type: python, spec: {scriptPathURI: src, entrypoint: a.py}}}\n", "source src: there is no such folder", exit.NotFound},
		{"kind: job\nspec: {name: x, runtime: {type: python, spec: {scriptPathURI: lib, entrypoint: b.py}}}\n", ":2: b.py is to run, and is no file in lib", exit.Usage},
		{"kind: distributed\nspec: {cluster: {kind: pytorch, spec: {image: '@image', workDir: w}}}\n", ":2: spec.cluster.spec.image is \"@image\", which stands for what ads opctl build-image has written to config.ini", exit.Failed},
	} {
		_, _, err := certRun(t, "explain", "job", imports(t, tt.file, map[string]string{"lib/a.py": "\n"}))
		if err == nil || !strings.Contains(err.Error(), tt.want) || exit.Code(err) != tt.code {
			t.Errorf("%q: got %v, exit code %d", tt.file, err, exit.Code(err))
		}
	}
}
