package logpack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/swci/logpack"
)

func TestRedact(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	for in, want := range map[string]string{
		"":                                       "",
		"plain text: 1":                          "plain text: 1",
		"a\n\nb":                                 "a\n\nb",
		"  Password: hunter2 # x":                "  Password: [left out]",
		"Auth: {Username: ada, Password: 'a b'}": "Auth: {Username: ada, Password: [left out]}",
		`{"auth": {"password":"a\"b","user":"ada"}}`: `{"auth":{"password":"[left out]","user":"[left out]"}}`,
		"DB_PASSWORD=x y":                                                       "DB_PASSWORD=[left out]",
		"swarmd run-sl -joinToken 1234-5 --name a":                              "swarmd run-sl -joinToken [left out] --name a",
		"run --token=abc --name a":                                              "run --token=[left out]",
		`"Cmd": ["--join-token", "abc", "x"]`:                                   `"Cmd": ["--join-token", "[left out]", "x"]`,
		"Authorization: Bearer abcdefghijkl":                                    "Authorization: [left out]",
		"sent bearer abcdefghijkl to x":                                         "sent bearer [left out] to x",
		"HTTP Proxy: http://ada:hunter2@proxy:3128/":                            "HTTP Proxy: http://[left out]@proxy:3128/",
		"join swarm-invitation-1.55.abc.def":                                    "join [left out]",
		"x -----BEGIN EC PRIVATE KEY-----\nAAA\n-----END EC PRIVATE KEY----- y": "x [left out]\n\n y",
		"k: -----BEGIN PRIVATE KEY-----\\nAAA\\n-----END PRIVATE KEY-----, z":   "k: [left out], z",
		"-----BEGIN CERTIFICATE-----\nAAA":                                      "-----BEGIN CERTIFICATE-----\nAAA",
		long + "\nb":                                                            long[:64<<10] + " [cut]\nb",
	} {
		if diff := cmp.Diff(want, string(logpack.Redact([]byte(in)))); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", in, diff)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte("x -----BEGIN EC PRIVATE KEY-----\nAAA\n-----END EC PRIVATE KEY----- y\npassword: x"))
	f.Add([]byte("http://a:b@c token=x"))
	f.Add([]byte(`{"Env":["A=b"],"Cmd":["--token","x"],"l":[{"name":"PASSWORD","value":1}]}`))
	f.Add([]byte("auth:\n  - a\n\n- --token\n- x\nname: TOKEN\nvalue: x"))
	key := regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	f.Fuzz(func(t *testing.T, in []byte) {
		out := logpack.Redact(in)
		if key.Match(out) {
			t.Errorf("a key is left: %q", out)
		}
		if json.Valid(in) && !json.Valid(out) {
			t.Errorf("what was JSON is none: %q", out)
		}
		if got, want := bytes.Count(out, []byte("\n")), bytes.Count(in, []byte("\n")); got != want && !json.Valid(in) {
			t.Errorf("%d lines, want %d", got, want)
		}
	})
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SWARM_RUN_DIR", filepath.Join(dir, "run"))
	usr := filepath.Join(dir, "usr")
	secret := filepath.Join(dir, "secret.yaml")
	err := errors.Join(
		os.MkdirAll(filepath.Join(usr, "taskdefs"), 0o700),
		os.WriteFile(filepath.Join(usr, "taskdefs", "x.yaml"), []byte("Name: x\nPassword: y\n"), 0o600),
		os.WriteFile(filepath.Join(usr, "key.pem"), []byte("key"), 0o600),
		os.WriteFile(filepath.Join(usr, "big.yml"), make([]byte, 1<<20+1), 0o600),
		os.WriteFile(secret, []byte("outside"), 0o600),
		os.Symlink(secret, filepath.Join(usr, "link.yaml")),
		unix.Mkfifo(filepath.Join(usr, "pipe.yaml"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	remove, err := registry.Add(registry.Entry{PID: os.Getpid(), Role: "sl", Name: "sl-0", Scope: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	var out bytes.Buffer
	rows, err := logpack.Write(t.Context(), &out, logpack.Config{
		Scope: "test", NoEngine: "none is here", Dirs: []string{usr, filepath.Join(dir, "absent")}, Now: time.Unix(1, 0),
		Texts: []logpack.Text{{Name: "swarm/a.txt", Data: []byte("token: x\n")}, {Name: "swarm/b.txt", Err: errors.New("no SN is known")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, out.Bytes())
	notes := map[string]string{}
	for _, r := range rows {
		if data, has := files[r.Name]; has != r.Taken || len(data) != r.Bytes {
			t.Errorf("%s: taken %t with %d bytes, the archive has %t, %d", r.Name, r.Taken, r.Bytes, has, len(data))
		}
		if !strings.HasPrefix(r.Name, "host/") && !strings.HasSuffix(r.Name, "/log.txt") {
			notes[r.Name] = r.Note
		}
		if strings.HasSuffix(r.Name, "/component.json") {
			delete(notes, r.Name)
			if !strings.HasPrefix(r.Name, "processes/sl-sl-0-") || !strings.Contains(files[r.Name], `"role": "sl"`) {
				t.Errorf("%s: %s", r.Name, files[r.Name])
			}
		}
	}
	want := map[string]string{
		"swarm/a.txt": "", "swarm/b.txt": "no SN is known", "containers": "not looked for: none is here",
		"files/0/taskdefs/x.yaml": "", "files/0/big.yml": "it has more than 1048576 bytes, so it is no task file",
		"files/1": "lstat " + filepath.Join(dir, "absent") + ": no such file or directory",
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := files["files/0/taskdefs/x.yaml"] + files["swarm/a.txt"]; got != "Name: x\nPassword: [left out]\ntoken: [left out]\n" {
		t.Errorf("files: %q", got)
	}
}
