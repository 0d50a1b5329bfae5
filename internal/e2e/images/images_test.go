package images_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// uid is a user whom no image knows.
const uid = "12345:12345"

// box is a container that is about to be made: without network, from an image of the project.
type box struct {
	image   string
	command []string // nil: the image's own
	shell   string   // instead of command: a script
	user    string   // "": the image's own
	health  *container.HealthConfig
	sealed  bool // a read-only root, as ML programs have
}

// start runs a box; the scope of the test removes it.
func start(t *testing.T, e *engine.Engine, b box) string {
	t.Helper()
	config := &container.Config{
		Image: b.image, Cmd: b.command, User: b.user, Healthcheck: b.health,
		Labels: map[string]string{engine.LabelRole: engine.RoleProbe, engine.LabelScope: engine.OSScope()},
	}
	if b.shell != "" {
		config.Entrypoint, config.Cmd = []string{"/bin/sh", "-ec", b.shell}, nil
	}
	host := &container.HostConfig{NetworkMode: "none"}
	if b.sealed {
		host.ReadonlyRootfs, host.Tmpfs = true, map[string]string{"/tmp": ""}
		host.CapDrop, host.SecurityOpt = []string{"ALL"}, []string{"no-new-privileges"}
	}
	made, err := e.ContainerCreate(t.Context(), config, host, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// run is start to the end: the output, which fails the test unless the exit code is 0.
func run(t *testing.T, e *engine.Engine, b box) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Timeout)
	defer cancel()
	id := start(t, e, b)
	done, failed := e.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	var code int64
	select {
	case end := <-done:
		code = end.StatusCode
	case err := <-failed:
		t.Fatal(err)
	}
	out := output(t, e, id)
	if code != 0 {
		t.Fatalf("%s %s%v: exit code %d\n%s", b.image, b.shell, b.command, code, out)
	}
	return out
}

func output(t *testing.T, e *engine.Engine, id string) string {
	t.Helper()
	logs, err := e.ContainerLogs(t.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = logs.Close() }()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// at is the machine's engine with an image, and a scope of the test's own.
func at(t *testing.T, image, how string) *engine.Engine {
	t.Helper()
	e := enginetest.Engine(t)
	enginetest.NeedImage(t, e, image, how)
	enginetest.Scope(t)
	return e
}

func TestSwarmdHoldsEveryProgram(t *testing.T) {
	e := at(t, engine.ImageSwarmd, "scripts/images swarmd")
	if out := run(t, e, box{image: engine.ImageSwarmd, command: []string{"version"}}); !strings.HasPrefix(out, "swarmd ") {
		t.Errorf("the image's program says %q, want swarmd's version", out)
	}
	out := run(t, e, box{image: engine.ImageSwarmd, sealed: true, shell: `
		echo "user $(id -u)"
		swarmctl version
		spire-server --version 2>&1 | sed 's/^/spire-server /'
		spire-agent --version 2>&1 | sed 's/^/spire-agent /'
		swarmd spire-plugin config
		[ -s /etc/ssl/certs/ca-certificates.crt ] && echo certificates
	`})
	for _, want := range []string{
		"user 10001", "swarmctl ", "spire-server 1.", "spire-agent 1.", "plugin_cmd", "certificates",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Nodes keep their state where the volume is mounted, whoever they run as.
	run(t, e, box{image: engine.ImageSwarmd, shell: `[ "$(stat -c '%u %a' /var/lib/swarmd)" = "10001 700" ] && touch /var/lib/swarmd/x`})
}

// The seed's agent configuration names the plugin by this path, and SPIRE checks a sum over the file if one is given.
func TestSwarmdHoldsThePlugin(t *testing.T) {
	e := at(t, engine.ImageSwarmd, "scripts/images swarmd")
	out := run(t, e, box{image: engine.ImageSwarmd, shell: `
		cd /
		plugin=/spire/bin/spire-swarm-plugin
		sum() { sha256sum "$1" | cut -d' ' -f1; }
		[ "$(sum $plugin)" = "$(sum /usr/local/bin/swarmd)" ] && echo same
		$plugin config 2>&1 || true
		mkdir -p /tmp/agent && cat >/tmp/agent/agent.conf <<-END
			agent {
			  data_dir = "/tmp/agent"
			  log_level = "DEBUG"
			  server_address = "127.0.0.1"
			  server_port = 1
			  socket_path = "/tmp/agent/agent.sock"
			  insecure_bootstrap = true
			  trust_domain = "swarm.learning"
			}
			plugins {
			  KeyManager "memory" { plugin_data {} }
			  NodeAttestor "join_token" { plugin_data {} }
			  WorkloadAttestor "swarm" {
			    plugin_cmd = "$plugin"
			    plugin_checksum = "$(sum $plugin)"
			    plugin_data {}
			  }
			}
		END
		timeout 20 spire-agent run -config /tmp/agent/agent.conf -joinToken 11111111-1111-1111-1111-111111111111 2>&1 | grep -m1 -E 'Plugin loaded.*external=true' || true
	`})
	for _, want := range []string{"same", "Plugin loaded", "plugin_name=swarm"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// quick makes health checks that a test can wait for; what is checked stays the image's own.
var quick = &container.HealthConfig{Interval: 200 * time.Millisecond, Timeout: 10 * time.Second, StartPeriod: time.Millisecond, Retries: 1}

func TestSwarmdTellsItsHealth(t *testing.T) {
	e := at(t, engine.ImageSwarmd, "scripts/images swarmd")
	authority := "swarmd run-authority & until [ -d /var/lib/swarmd/authority ]; do sleep 0.1; done; "
	for name, test := range map[string]struct {
		box  box
		want string
	}{
		"an SN that leads":      {box{shell: authority + "exec swarmd run-sn --name sn-1 --identity embedded --host-ip 127.0.0.1 --sentinel-ip 127.0.0.1"}, "healthy"},
		"an SN without a swarm": {box{shell: authority + "exec swarmd run-sn --name sn-2 --identity embedded --host-ip 127.0.0.1 --sentinel-ip 127.0.0.2"}, "unhealthy"},
		"a SPIRE server":        {box{command: []string{"run-spire-server"}}, "healthy"},
		"a shell":               {box{shell: "exec sleep 60"}, "healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			test.box.image, test.box.health = engine.ImageSwarmd, quick
			id := start(t, e, test.box)
			if got := awaitHealth(t, e, id, test.want); got != test.want {
				t.Errorf("health is %q, want %q\n%s", got, test.want, output(t, e, id))
			}
		})
	}
}

// awaitHealth returns the state that is wanted as soon as it is there, else the last one.
func awaitHealth(t *testing.T, e *engine.Engine, id, want string) (state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Timeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := e.ContainerInspect(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if c.State.Health == nil {
			t.Fatal("the image has no health check")
		}
		state = c.State.Health.Status
		if state == want || !c.State.Running {
			return state
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return state
		}
	}
}

// ML programs run as whoever owns the data, without network and on a read-only root.
func TestMLImagesImportWhatTheyPromise(t *testing.T) {
	for _, test := range []promise{
		{engine.ImagePYT, "pyt", "swarmlearning.pyt, swarm, torch, torchvision, torchmetrics, sklearn", `
			from torchvision import datasets, models, transforms
			print("sees", tuple(models.resnet18()(torch.zeros(2, 3, 32, 32)).shape), len(torchvision.ops.nms(torch.tensor([[0.0, 0.0, 2.0, 2.0]] * 2), torch.ones(2), 0.5)))
			print("measures", float(torchmetrics.Accuracy(task="multiclass", num_classes=3)(torch.tensor([1, 2]), torch.tensor([1, 1]))))
		`, []string{"sees (2, 1000) 1", "measures 0.5"}},
		{engine.ImageTF, "tf", "swarmlearning.tf, swarm, tensorflow, tf_keras, sklearn, importlib.metadata", `
			print("Keras", tensorflow.keras.version()[0], tf_keras.__version__[0])
			print([d.name for d in importlib.metadata.distributions() if d.name in ("tensorflow", "tensorflow-cpu", "tensorflow_cpu")])
		`, []string{"Keras 3 2", "['tensorflow_cpu']"}},
		{enginetest.TestImage, "test", "swarm, numpy", "", nil},
	} {
		t.Run(test.name, test.check)
	}
}

// TestLegacyImageForMinutes: programs for Keras 2 import it by both its names, and train.
func TestLegacyImageForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("its image takes minutes to make: SWARM_TEST_LONG=1 or make test-long")
	}
	promise{engine.ImageTFLegacy, "tf-legacy", "swarmlearning.tf, swarm, tensorflow as tf, keras, sklearn", `
		import numpy as np
		from keras.layers import Dense
		from keras.models import Sequential
		print("Keras", keras.__version__[0], Sequential is tf.keras.Sequential, Dense is tf.keras.layers.Dense)
		model = Sequential([Dense(4, activation="relu", input_shape=(3,)), Dense(1, activation="sigmoid")])
		model.compile(optimizer=tf.keras.optimizers.Adam(lr=0.01), loss="binary_crossentropy", metrics=["accuracy"])
		os.environ["SWARM_LOOPBACK"] = "1"
		callback = swarm.SwarmCallback(sync_interval=2, min_peers=2, val_data=(np.ones((4, 3)), np.ones(4)), model_name="m")
		model.fit(np.ones((8, 3)), np.ones(8), batch_size=4, verbose=0, callbacks=[callback])
		model.save("/tmp/model")
		model.save("/tmp/model.h5")
		print("kept", [type(keras.models.load_model("/tmp/model" + end)).__name__ for end in ("", ".h5")], sorted(model.weights[0].name.split("/"))[-1])
	`, []string{"Keras 2 True True", "kept ['Sequential', 'Sequential'] kernel:0"}}.check(t)
}

// promise is what an image of scripts/images holds.
type promise struct {
	image, name, modules string
	code                 string // runs after the modules are imported
	want                 []string
}

func (p promise) check(t *testing.T) {
	e := at(t, p.image, "scripts/images "+p.name)
	const script = `import os, sys, textwrap, swarmlearning, %s
print(os.getuid(), os.environ.get("PYTHONPATH"), swarmlearning.__file__)
exec(textwrap.dedent(sys.argv[1]))`
	out := run(t, e, box{image: p.image, user: uid, sealed: true, command: []string{"python3", "-c", fmt.Sprintf(script, p.modules), p.code}})
	for _, want := range append([]string{"12345 None /usr/local/lib/"}, p.want...) {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Every image says what it was made of, so that scripts/images knows a stale one.
func TestImagesCarryTheirKey(t *testing.T) {
	e := enginetest.Engine(t)
	seen := map[string]string{}
	for _, image := range []string{engine.ImageSwarmd, engine.ImagePYT, engine.ImageTF, enginetest.TestImage} {
		enginetest.NeedImage(t, e, image, "scripts/images all")
		found, err := e.ImageInspect(t.Context(), image)
		if err != nil {
			t.Fatal(err)
		}
		key := found.Config.Labels["io.swarmd.key"]
		if len(key) != 16 {
			t.Errorf("%s has the key %q", image, key)
		}
		if other, taken := seen[key]; taken {
			t.Errorf("%s and %s have one key", image, other)
		}
		seen[key] = image
	}
}
