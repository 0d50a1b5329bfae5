package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestCollectLogs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("SWARM_RUN_DIR", filepath.Join(dir, "run"))
	t.Setenv("PATH", filepath.Join(dir, "no-tools"))
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(dir, "absent.sock"))
	env := map[string]string{"XDG_STATE_HOME": dir, "DOCKER_HOST": os.Getenv("DOCKER_HOST"), "SWARM_SCOPE": "collect"}
	run := func(args ...string) (out, errs string, err error) {
		var b, e bytes.Buffer
		s := &swci.Session{
			Env: swci.Env{
				Stdin: strings.NewReader(""), Stdout: &b, Stderr: &e, Getenv: func(k string) string { return env[k] },
				Now: func() time.Time { return time.UnixMilli(11_000) }, IsTerminal: func(io.Writer) bool { return false },
			},
			Connect: func(context.Context, swci.Context) (client.Operator, func(), error) {
				return answering(t, &fakeAPI{}), func() {}, nil
			},
		}
		err = swci.Execute(t.Context(), append([]string{"collect", "logs"}, args...), s)
		return b.String(), e.String(), err
	}
	out, errs, err := run("--sn=sn1", "--identity=/run/agent.sock", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	type packed struct {
		Name  string `json:"name"`
		Bytes int    `json:"bytes"`
	}
	var got struct {
		Archive string   `json:"archive"`
		Bytes   int64    `json:"bytes"`
		Files   []packed `json:"files"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(got.Archive)
	if err != nil || info.Size() != got.Bytes || info.Mode().Perm() != 0o600 || !strings.HasSuffix(got.Archive, "_19700101T000011Z.tar.gz") || errs != "" {
		t.Errorf("archive %q of %d bytes: %v, %v; %s", got.Archive, got.Bytes, info, err, errs)
	}
	for _, name := range []string{"swarm/version.txt", "swarm/list-nodes.txt", "swarm/get-health.txt"} {
		if !slices.ContainsFunc(got.Files, func(f packed) bool { return f.Name == name && f.Bytes > 0 }) {
			t.Errorf("%s is not there: %s", name, out)
		}
	}
	if !strings.Contains(out, `"name": "containers"`) {
		t.Errorf("that containers were not looked for is not said: %s", out)
	}
	if _, _, err := run("--out", got.Archive); exit.Code(err) != exit.Conflict {
		t.Errorf("an archive that is there: %v", err)
	}
	out, errs, err = run("--out", "second.tar.gz")
	if err != nil || !strings.Contains(out, "not taken: no SN is known") || !strings.HasPrefix(errs, "wrote second.tar.gz, ") {
		t.Errorf("without a swarm: %v\n%s%s", err, out, errs)
	}
}
