package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// script is the last line that a script of the repository prints: what it has built once.
func script(t *testing.T, words ...string) string {
	t.Helper()
	const unfit = 3 // the exit code where the system must be changed first
	cmd := exec.CommandContext(t.Context(), filepath.Join("../..", words[0]), words[1:]...)
	var why strings.Builder
	cmd.Stderr = &why
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == unfit {
		t.Skipf("%s: %s", words[0], e2etest.Last(why.String(), 3))
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", words[0], err, e2etest.Last(why.String(), 30))
	}
	return strings.TrimSpace(string(out))
}

// bucketServer is a server of S3 with the buckets of a folder.
type bucketServer struct {
	*e2etest.Proc

	dir, url    string
	key, secret string
}

// buckets starts a server with the buckets data, models and full, which has room for a MiB.
func (w *swarm) buckets() *bucketServer {
	w.T.Helper()
	s := &bucketServer{dir: w.Path("s3"), key: "of-the-host", secret: "hunter2-hunter2"}
	for _, bucket := range []string{"data", "models", "full"} {
		if err := os.MkdirAll(filepath.Join(s.dir, bucket), 0o700); err != nil {
			w.T.Fatal(err)
		}
	}
	full := filepath.Join(s.dir, "full")
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=1m"); errors.Is(err, unix.EPERM) {
		w.T.Skip("needs root: a bucket is to be full")
	} else if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() {
		if err := unix.Unmount(full, unix.MNT_DETACH); err != nil {
			w.T.Error(err)
		}
	})
	l, err := new(net.ListenConfig).Listen(w.T.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.T.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		w.T.Fatal(err)
	}
	s.url = "http://" + at
	s.Proc = e2etest.Start(w.T, "versitygw", w.Dir, []string{"ROOT_ACCESS_KEY=" + s.key, "ROOT_SECRET_KEY=" + s.secret}, script(w.T, "scripts/s3-server"), "--port", at, "--region", "us-east-1", "posix", s.dir)
	w.Until("the server of S3", func() bool {
		req, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, s.url, nil)
		if err != nil {
			w.T.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		return err == nil && res.Body.Close() == nil
	})
	return s
}

// documented is a remote of rclone in docs/reference/jobs.md.
var documented = regexp.MustCompile(`(?m)^    \[lab\]\n(?:    \w+ = .*\n)+`)

// remotes is a configuration of rclone with remotes to the server, as the documents have it: lab with its key, and wrong with another one.
func (s *bucketServer) remotes() string {
	s.T.Helper()
	raw, err := os.ReadFile("../../docs/reference/jobs.md")
	if err != nil {
		s.T.Fatal(err)
	}
	lab := documented.FindString(string(raw))
	if lab == "" {
		s.T.Fatal("the documents have no remote")
	}
	remote := func(name, secret string) string {
		return strings.NewReplacer("    ", "", "[lab]", "["+name+"]", "https://s3.example.org", s.url, "THE-KEY", s.key, "ITS-SECRET", secret).Replace(lab)
	}
	return remote("lab", s.secret) + remote("wrong", "another")
}

// TestJobsWithObjectStorage: a program reads and writes objects by fsspec with a key that its host has as secrets, and what it leaves is copied by the
// host's rclone with the host's own. The last copy is awaited. A wrong key and a full bucket are why a job fails.
func TestJobsWithObjectStorage(t *testing.T) {
	t.Parallel()
	needsRclone(t)
	python := script(t, "python/tools/env.sh", "s3")
	w := newSwarm(t)
	s := w.buckets()
	config := w.Path(".config/rclone/rclone.conf") // where the SWOP's home is
	if err := errorOf(
		os.MkdirAll(filepath.Dir(config), 0o700), os.WriteFile(config, []byte(s.remotes()), 0o600), os.WriteFile(filepath.Join(s.dir, "data/input"), []byte("of the bucket"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	authority := w.authority()
	sn := w.SN(1)
	sn.Sees(apiMarker)
	secrets := w.secrets(map[string]string{"AWS_ACCESS_KEY_ID": s.key, "AWS_SECRET_ACCESS_KEY": s.secret})
	swop := w.ownedWith([]string{"SWARM_PYTHON=" + python}, "targets: {lab: 'lab:models', denied: 'wrong:models', full: 'lab:full'}\n"+
		"sentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {task.type='RUN_JOB'}\n"+
		"- Allow spiffe://swarm.learning/swarm/swci to use secret where secret.name in (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)\n", "--secrets-dir", secrets)

	const program = "import os, sys, fsspec\nrank, run = os.environ['SWARM_NODE_RANK'], os.environ['SWARM_RUN_ID']\n" +
		"with fsspec.open('s3://data/input', 'rb') as f:\n    print('rank', rank, 'has read', f.read().decode(), flush=True)\n" +
		"with fsspec.open(f's3://data/{run}/{rank}', 'wb') as f:\n    f.write(b'of rank ' + rank.encode())\n" +
		"open(os.environ['SWARM_ARTIFACTS'] + '/weights', 'wb').write(rank.encode() * int(sys.argv[1]))\n"
	lines := func(size int, to string) string {
		return fmt.Sprintf("args: ['%d']\nreplicas: 2\nresources: {cpu: 0.1}\nenv: {AWS_ENDPOINT_URL: '%s', AWS_DEFAULT_REGION: us-east-1}\nsecrets: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]\nartifacts: {dir: /opt/out, to: %s, every: 1m}\n", size, s.url, to)
	}
	w.says(0, "run job -f "+w.written("objects", lines(3, "lab"), program), "rank 0 has read of the bucket", "rank 1 has read of the bucket", "job objects succeeded")
	for file, want := range map[string]string{"data/objects-*/1": "of rank 1", "models/objects-*/0/node/0/weights": "000", "models/objects-*/0/node/1/weights": "111"} {
		found, err := filepath.Glob(filepath.Join(s.dir, file))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %q, %v", file, found, err)
		}
		if got, err := os.ReadFile(found[0]); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", file, got, err, want)
		}
	}
	failing := map[string]string{"denied": "SignatureDoesNotMatch: ", "full": "InsufficientStorage: No space left on device."}
	for to := range failing {
		w.says(0, "run job "+w.written(to, lines(4<<20, to), program), "job "+to+" is assigned to swop")
	}
	for to, why := range failing {
		w.Until("end of job "+to, func() bool {
			_, out := w.swarmctl("get", "job", "status", to)
			return strings.Contains(out, "end         ")
		})
		w.says(0, "get job status "+to, "end         member_failed", "what it has left could not be copied to target "+to+": rclone ended with code 1", why)
	}
	for _, p := range []*e2etest.Proc{swop, sn, authority, s.Proc} {
		p.Stop()
	}
	w.LeavesNothing()
}
