package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestConfigFileFillsWhatIsNotGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sl.yaml")
	text := "host-ip: 10.0.0.1\nsn-ip: [10.0.0.9, \"sn2:7\"]\nsl-fs-port: 4000\nattach: true\nenv: [A=1, \"B=2,3\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := Env{Getenv: func(k string) string { return map[string]string{"SWARM_SL_FS_PORT": "5000"}[k] }}
	args := []string{"swarmd", "run-sl", "--config-file=" + path, "--host-ip=10.0.0.2"}
	got, err := withFile(newApp(e), args, e)
	if err != nil {
		t.Fatal(err)
	}
	want := append(args, "--attach=true", "--env=A=1", "--env=B=2,3", "--sn-ip=10.0.0.9", "--sn-ip=sn2:7")
	if diff := cmp.Diff(got, want); diff != "" {
		t.Fatal(diff)
	}
}

// TestConfigFileOfTheOriginals: the original's options stand in files too, and are known there as on the command line.
func TestConfigFileOfTheOriginals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sn.yaml")
	if err := os.WriteFile(path, []byte("host-ip: 10.0.0.1\napls-ip: 10.0.0.9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	e := Env{Getenv: func(string) string { return "" }, Stderr: &said}
	args := []string{"swarmd", "run-sn", "--config-file=" + path}
	got, err := withFile(newApp(e), args, e)
	if err != nil || !cmp.Equal(got, append(args, "--host-ip=10.0.0.1")) {
		t.Errorf("%q, %v", got, err)
	}
	if want := "swarmd: apls-ip in " + path + " changes nothing: no licence is needed\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}

func TestConfigFileRefusals(t *testing.T) {
	e := Env{Getenv: func(string) string { return "" }}
	for text, want := range map[string]string{
		"host-pi: 1\n":      "did you mean --host-ip?",
		"host-ip: {a: b}\n": "want a value or a list of values",
		"- a\n":             "want lines like host-ip",
		"host-ip: [a, b]\n": "host-ip has 2 values and takes one: write them as one text",
		"memory: 3g\n":      "is not taken here: limit a component's container with docker update",
	} {
		path := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := withFile(newApp(e), []string{"swarmd", "run-sn", "--config-file=" + path}, e)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte("host-ip: 10.0.0.1\nenv: [A=1]\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		options, err := parseFile("f", raw)
		for name, args := range options {
			for _, a := range args {
				if err == nil && !strings.HasPrefix(a, "--"+name+"=") {
					t.Fatalf("%q became %q", name, a)
				}
			}
		}
	})
}

func TestNormalise(t *testing.T) {
	app := newApp(Env{Getenv: func(string) string { return "" }})
	tests := []struct {
		name string
		args string
		want string // space-separated, or the error behind "!"
	}{
		{"value apart", "run-sn --host-ip 10.0.0.1", "run-sn --host-ip=10.0.0.1"},
		{"value joined", "run-sn --host-ip=10.0.0.1", "run-sn --host-ip=10.0.0.1"},
		{"single dash", "run-sn -host-ip 10.0.0.1", "run-sn --host-ip=10.0.0.1"},
		{"value with dash for -e", "run-sl -e -x=1", "run-sl --env=-x=1"},
		{"commas stay", "run-sl -e A=1,2", "run-sl --env=A=1,2"},
		{"boolean", "run-sl --attach --name a", "run-sl --attach --name=a"},
		{"aliases", "run-sn -l a=b --label c=d --net=n -genJoinToken -h", "run-sn --label=a=b --label=c=d --network=n --gen-join-token --help"},
		{"letters together", "run-sn -it -d --rm", "run-sn --interactive --tty --detach --rm"},
		{"letters with a value", "run-sn -ite x", "!unknown option -ite"},
		{"value with dash for --ml-cmd", "run-sl --ml-cmd -u", "run-sl --ml-cmd=-u"},
		{"value with dash for a program", "run-sl --model-program-args --lr=1", "run-sl --model-program-args=--lr=1"},
		{"unsupported ML option", "run-sl --ml-foo=x", "!--ml-foo is an unsupported option; "},
		{"missing value", "run-sn --host-ip", "!--host-ip: missing argument"},
		{"option for a value", "run-sn --host-ip --name a", "!--host-ip: missing argument"},
		{"unknown, near", "run-sn --host-pi 1", "!did you mean --host-ip?"},
		{"unknown, far", "run-sn --zzzzzzzzzzzz", "!unknown option --zzzzzzzzzzzz; see swarmd run-sn --help"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := normalise(app, append([]string{"swarmd"}, strings.Fields(tt.args)...), environment(nil))
			if want, bad := strings.CutPrefix(tt.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("got %v, %v; want error %q", got, err, want)
				}
				return
			}
			if diff := cmp.Diff(got, append([]string{"swarmd"}, strings.Fields(tt.want)...), cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatal(err, diff)
			}
		})
	}
}
