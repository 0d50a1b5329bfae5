package enginetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Podman starts Podman's Docker-compatible service with storage of its own, which has TestImage, and returns its address,
// a DOCKER_HOST. It and all that it runs are gone when the test ends. The test is skipped where Podman or the
// rights to run it are missing.
func Podman(t testing.TB, opts ...Option) string {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("needs podman: run scripts/ci-deps")
	}
	from, dir, o := Engine(t), newHome(t), gather(opts)
	path := func(name string) string { return filepath.Join(dir, name) }
	// Podman gives containers more open files and processes than a machine without CAP_SYS_RESOURCE allows it.
	var files, procs unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_NPROC, &procs)); err != nil {
		t.Fatal(err)
	}
	limits := fmt.Sprintf(`"nofile=%d:%[1]d", "nproc=%d:%[2]d"`, files.Max, min(procs.Max, 16<<10))
	// What the machine's own configuration says must not matter.
	configs := map[string]string{
		"policy.json":     `{"default": [{"type": "insecureAcceptAnything"}]}`,
		"containers.conf": "[containers]\ndefault_ulimits = [" + limits + "]\n[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nlock_type = \"file\"\n",
		"storage.conf":    "[storage]\ndriver = \"overlay\"\nrunroot = \"" + path("run") + "\"\ngraphroot = \"" + path("root") + "\"\n",
		"registries.conf": "unqualified-search-registries = []\n",
	}
	for name, text := range configs {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := append(environ(t, dir, o), "CONTAINERS_CONF="+path("containers.conf"), "CONTAINERS_STORAGE_CONF="+path("storage.conf"),
		"CONTAINERS_REGISTRIES_CONF="+path("registries.conf"), "TMPDIR="+dir)
	host := "unix://" + path("podman.sock")
	log := &logBuffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("---- podman\n%s", last(log.String(), 40))
		}
	})
	podman := func(root, run, tmp string, words ...string) []string {
		return append([]string{"podman", "--root=" + root, "--runroot=" + run, "--tmpdir=" + tmp, "--cgroup-manager=cgroupfs"}, words...)
	}
	words := []string{"--log-level=info"}
	for _, image := range o.images {
		words = append(words, "--storage-opt=overlay.imagestore="+store(t, from, image, func(root string) *exec.Cmd {
			args := podman(root, path("load-run"), path("load-tmp"), "load", "--quiet")
			load := exec.Command(args[0], args[1:]...) //nolint:gosec // a test's own
			load.Env = env
			return load
		}))
	}
	words = append(words, "system", "service", "--time=0", host)
	// It stands in its own directory, since it leaves a file there when a container runs out of memory.
	service := append([]string{"env", "-C", dir}, podman(path("root"), path("run"), path("tmp"), words...)...)
	startServer(t, log, env, service...).await(t, host)
	return host
}
