package kubernetes_test

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	readyTimeout = 90 * time.Second
	user         = "10001:10001"
	scope        = "io.swarmd.scope"
)

// cluster runs containers of pods at a container engine, isolated as the manifests want, on a network of its own on which they
// have the names that the cluster's DNS would give them.
type cluster struct {
	t     *testing.T
	scope string
	dir   string
	image string // of SLs
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: users of containers own files here")
	}
	if exec.Command("docker", "version").Run() != nil {
		t.Skip("needs a container engine: run scripts/engine")
	}
	for _, image := range []string{"swarmd", "swarm-ml-pyt"} {
		if exec.Command("docker", "image", "inspect", image).Run() != nil {
			t.Skipf("needs image %s: run scripts/images", image)
		}
	}
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	k := &cluster{t: t, scope: "test-" + hex.EncodeToString(b), dir: t.TempDir()}
	t.Cleanup(k.clean)
	k.docker("network", "create", "--label", scope+"="+k.scope, k.scope)
	k.image = "swarm-sl-" + k.scope
	k.docker("build", "-q", "-f", "sl.Dockerfile", "-t", k.image, "--label", scope+"="+k.scope, ".")
	return k
}

// clean removes what carries the scope.
func (k *cluster) clean() {
	for _, kind := range [][2]string{{"container ls -aq", "container rm -fv"}, {"network ls -q", "network rm"}, {"image ls -q", "image rm -f"}} {
		ids, err := exec.Command("docker", append(strings.Fields(kind[0]), "--filter", "label="+scope+"="+k.scope)...).Output()
		if err != nil {
			k.t.Errorf("%s: %v", kind[0], err)
		}
		if len(ids) == 0 {
			continue
		}
		if out, err := exec.Command("docker", append(strings.Fields(kind[1]), strings.Fields(string(ids))...)...).CombinedOutput(); err != nil {
			k.t.Errorf("%s: %v: %s", kind[1], err, out)
		}
	}
}

func (k *cluster) docker(args ...string) string {
	k.t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		k.t.Fatalf("docker %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// shared is a folder that containers' users may write.
func (k *cluster) shared(name string) string {
	k.t.Helper()
	dir := filepath.Join(k.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // the user of the containers writes there
		k.t.Fatal(err)
	}
	return dir
}

// run starts a container with the isolation that every pod has here; options precede the image.
func (k *cluster) run(name, image string, options, args []string) {
	k.t.Helper()
	all := []string{
		"run", "-d", "--name", k.scope + "-" + name, "--label", scope + "=" + k.scope, "--label", "io.swarmd.role=probe", "--network", k.scope,
		"--user", user, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"-v", k.shared("identities") + ":/identities",
	}
	k.docker(append(append(append(all, options...), image), args...)...)
	k.t.Cleanup(func() {
		if k.t.Failed() {
			out, _ := exec.Command("docker", "logs", "--tail", "30", k.scope+"-"+name).CombinedOutput()
			k.t.Logf("---- %s\n%s", name, out)
		}
	})
}

// node starts the container of a pod. Volumes that binds does not name are empty, as those of a new pod are.
func (k *cluster) node(name, image string, s *appsv1.StatefulSet, aliases []string, args []string, binds map[string]string) {
	k.t.Helper()
	var options []string
	for _, m := range s.Spec.Template.Spec.Containers[0].VolumeMounts {
		switch bind, ok := binds[m.Name]; {
		case ok && m.ReadOnly:
			options = append(options, "-v", bind+":"+m.MountPath+":ro")
		case ok:
			options = append(options, "-v", bind+":"+m.MountPath)
		case m.Name == "shm":
			options = append(options, "--shm-size", "1g")
		case m.Name == "tmp":
			options = append(options, "--tmpfs", m.MountPath)
		case m.Name != "spiffe":
			options = append(options, "-v", k.shared(name+"-"+m.Name)+":"+m.MountPath)
		}
	}
	for _, a := range aliases {
		options = append(options, "--network-alias", a+"."+namespace+".svc.cluster.local")
	}
	k.run(name, image, options, args)
}

// adapted are a container's arguments with identities from the authority instead of SPIRE, and some words replaced.
func adapted(c corev1.Container, replace ...string) (args []string) {
	for _, a := range c.Args {
		if strings.HasPrefix(a, "--socket-path=") {
			a = "--identity=embedded=/identities/authority"
		}
		args = append(args, strings.NewReplacer(replace...).Replace(a))
	}
	return args
}

// until waits for a command of docker to say what is wanted.
func (k *cluster) until(want string, args ...string) {
	k.t.Helper()
	deadline := time.Now().Add(readyTimeout)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		out, _ := exec.Command("docker", args...).CombinedOutput()
		if strings.Contains(string(out), want) {
			return
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("docker %q says %q, want %q", args, out, want)
		}
		<-tick.C
	}
}

// The nodes of the manifests train, as far as that can be had without a cluster: their images, arguments, probes, isolation and names,
// with two sites.
func TestNodesOfTheManifestsTrain(t *testing.T) {
	k := newCluster(t)
	k.run("authority", "swarmd", nil, []string{"run-authority", "--dir", "/identities/authority"})
	k.until("authority started", "logs", k.scope+"-authority")
	program, err := os.ReadFile("../../internal/e2e/e2etest/testdata/train.py")
	if err != nil {
		t.Fatal(err)
	}
	var sn, sl *appsv1.StatefulSet
	for _, s := range of[*appsv1.StatefulSet](t) {
		if s.Name == "sn" {
			sn = s
		} else {
			sl = s
		}
	}
	snBox, slBox := sn.Spec.Template.Spec.Containers[0], sl.Spec.Template.Spec.Containers[0]
	for _, pod := range []string{"sn-0", "sn-1", "sn-2"} {
		k.node(pod, snBox.Image, sn, []string{pod + ".sn", "sn-api"}, adapted(snBox, "$(POD_NAME)", pod), nil)
	}
	for _, site := range []string{"hospital-a", "hospital-b"} {
		model := k.shared(site)
		if err := os.WriteFile(filepath.Join(model, "train.py"), program, 0o644); err != nil { //nolint:gosec // another user reads it
			t.Fatal(err)
		}
		k.node(site, k.image, sl, []string{site + "-0." + site}, adapted(slBox, "hospital-a", site), map[string]string{"model": model, "data": k.shared("data")})
	}
	for _, site := range []string{"hospital-a", "hospital-b"} {
		k.until("exited 0", "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", k.scope+"-"+site)
		if log := k.docker("logs", k.scope+"-"+site); !strings.Contains(log, "final model is with the program") {
			t.Errorf("%s has trained nothing", site)
		}
	}
	for _, probe := range []*corev1.Probe{snBox.ReadinessProbe, snBox.LivenessProbe, snBox.StartupProbe} {
		k.docker(append([]string{"exec", k.scope + "-sn-2"}, probe.Exec.Command...)...)
	}
}
