package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// said is a line of each framework's program, which init job writes.
var said = map[string]string{
	jobfile.None: "primes below 100000", jobfile.PyTorch: ": epoch 3", jobfile.TensorFlow: ": epoch 3", jobfile.Horovod: ": epoch 3", jobfile.Dask: "best 1.5", jobfile.Ray: "best 1.5",
}

// builder builds what init job writes, with the container client of the machine.
type builder struct {
	*swarm
	e    *engine.Engine
	base string // in the place of the image that the files name, which no registry is asked for
}

// TestDockerfilesOfInitJob: the Dockerfile that init job writes has what its program needs. The packages are there already, as no network is asked here.
func TestDockerfilesOfInitJob(t *testing.T) {
	e := enginetest.Engine(t)
	enginetest.NeedImage(t, e, engine.ImagePYT, "scripts/images pyt")
	b := newBuilder(t, e, "FROM "+engine.ImagePYT+"\nRUN : >/etc/apt/sources.list && rm -rf /etc/apt/sources.list.d\n")
	b.runs(jobfile.None)
	b.runs(jobfile.PyTorch)
}

// TestDockerfilesOfInitJobForMinutes builds those of all frameworks from the distribution's packages and from pip's.
func TestDockerfilesOfInitJobForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("builds images for all frameworks, one of which is compiled: SWARM_TEST_LONG=1 or make test-long")
	}
	e := enginetest.Engine(t)
	enginetest.NeedImage(t, e, "swarm-base", "scripts/images base")
	steps := "FROM swarm-base\nCOPY ca.pem /ca.pem\nENV PIP_CERT=/ca.pem\n"
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"} { // pip fetches as it does on this machine
		if v := os.Getenv(name); v != "" {
			steps += fmt.Sprintf("ENV %s=%q\n", name, v)
		}
	}
	b := newBuilder(t, e, steps)
	for _, framework := range jobfile.Frameworks {
		b.runs(framework)
	}
}

// newBuilder starts a host, and makes the base.
func newBuilder(t *testing.T, e *engine.Engine, base string) *builder {
	t.Helper()
	scope := enginetest.Scope(t)
	w := newSwarm(t)
	b := &builder{swarm: w, e: e, base: scope + "-base:1"}
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err := errorOf(err, os.Mkdir(w.Path("base"), 0o700), os.WriteFile(w.Path("base", "Dockerfile"), []byte(base), 0o600), os.WriteFile(w.Path("base", "ca.pem"), certificates, 0o600)); err != nil {
		t.Fatal(err)
	}
	b.builds(b.base, w.Path("base"))
	w.authority()
	w.SN(1).Sees(apiMarker)
	w.owned("sentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='docker', task.type='RUN_JOB'}\n", "--ml-runtime", "docker")
	return b
}

// builds runs docker build as the job's file says. In the host's network packages are fetched the way that this machine fetches them.
func (b *builder) builds(tag, dir string) {
	b.T.Helper()
	cmd := exec.CommandContext(b.T.Context(), "docker", "build", "--network", "host", "--build-arg", "BASE="+b.base, "-t", tag, dir)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+b.e.DaemonHost(), "DOCKER_BUILDKIT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.T.Fatalf("%s: %v\n%s", tag, err, out[max(0, len(out)-4000):])
	}
	b.T.Cleanup(func() {
		if _, err := b.e.ImageRemove(context.Background(), tag, image.RemoveOptions{PruneChildren: true}); err != nil {
			b.T.Error(err)
		}
	})
}

// runs begins a job, builds its image, and runs it.
func (b *builder) runs(framework string) {
	b.T.Helper()
	name := strings.TrimSuffix(b.base, "-base:1") + "-" + framework
	b.says(0, "init job --framework "+framework+" "+b.Path(name))
	b.builds(name+":1", b.Path(name))
	file := b.Path(name, "job.yaml")
	raw, err := os.ReadFile(file)
	options := ""
	if err == nil && framework == jobfile.Ray { // else each node takes all processors, and not each machine has three
		raw, options = append(raw, "resources: {cpu: 1, shm: 256MB}\n"...), "--replicas 1 "
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil || !bytes.Contains(raw, []byte("docker build -t "+name+":1 .")) {
		b.T.Fatalf("%s does not say how its image is built: %v", filepath.Base(file), err)
	}
	b.says(0, "run job -f "+options+file, said[framework], "job "+name+" succeeded")
}
