package published_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// published is a program of testdata and what it runs on.
type published struct {
	program, platform string
	environment       string // of python/tools/env.sh, for the process runtime
	image             string // for the docker runtime; empty: none has what it needs
	saves             string // what it writes into its model directory
	always            string // the runtime in which it runs in every `make test`; empty: only in test-long
}

var all = []published{
	{"v0_3_pyt", "PYT", "dev", engine.ImagePYT, "saved_model.pt", "process"}, // with fixed paths
	{"v1_0_pyt", "PYT", "dev", engine.ImagePYT, "saved_model.pt", ""},
	{"v2_0_pyt", "PYT", "dev", engine.ImagePYT, "saved_model.pt", ""},
	{"v2_1_pyt", "PYT", "hf", engine.ImagePYT, "saved_model.pt", ""}, // with torchmetrics
	{"v2_3_pyt", "PYT", "hf", engine.ImagePYT, "saved_model.pt", ""},
	{"v0_3_keras", "TF", "tf-legacy", engine.ImageTFLegacy, "saved_model/saved_model.pb", ""},
	{"v1_0_keras", "TF", "tf-legacy", engine.ImageTFLegacy, "saved_model.h5", ""},
	{"v2_0_keras", "TF", "tf-legacy", engine.ImageTFLegacy, "saved_model.h5", ""},
	{"v2_1_keras", "TF", "tf-legacy", engine.ImageTFLegacy, "saved_model/saved_model.pb", ""},
	{"v2_3_keras", "TF", "tf-legacy", engine.ImageTFLegacy, "saved_model.keras", ""},
	{"v2_3_keras", "TF", "tf", engine.ImageTF, "saved_model.keras", ""},
	{"v2_3_hf", "PYT", "hf", "", "saved_model/model.safetensors", "process"},
	{"v2_3_sklearn", "PYT", "dev", engine.ImagePYT, "saved_model.joblib", ""},
	{"numpy_arrays", "PYT", "dev", enginetest.TestImage, "saved_model.npz", ""},
}

// TestPublishedPrograms runs one program for PyTorch and one for Hugging Face, and TestPublishedProgramsForMinutes all others. One of
// each other kind is trained by real daemons elsewhere: python/tests have Keras and scikit-learn, internal/e2e has arrays.
func TestPublishedPrograms(t *testing.T) { everyProgram(t, true) }

func TestPublishedProgramsForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
	everyProgram(t, false)
}

func everyProgram(t *testing.T, always bool) {
	t.Helper()
	t.Parallel()
	for _, p := range all {
		for _, runtime := range []string{"process", "docker"} {
			if (p.always == runtime) != always || runtime == "docker" && p.image == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s %s %s", p.program, p.environment, runtime), func(t *testing.T) { p.trains(t, runtime) })
		}
	}
}

// trains runs a program in a swarm of two and wants equal models.
func (p published) trains(t *testing.T, runtime string) {
	dir := t.TempDir()
	for peer := range 2 {
		writeRows(t, filepath.Join(dir, "data", fmt.Sprint(peer)), uint64(peer))
	}
	text, err := os.ReadFile(filepath.Join("testdata", p.program+".py"))
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "model")
	if err := os.Mkdir(model, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "program.py"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"swarmctl", "local", "run", "--peers", "2", "--platform", p.platform, "--model-dir", model, "--model-program", "program.py",
		"--data-dir", filepath.Join(dir, "data", "{peer}"), "--out", filepath.Join(dir, "out"), "-e", "MAX_EPOCHS=2", "--runtime", runtime,
	}
	env := []string{"XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir, "TF_CPP_MIN_LOG_LEVEL=2"}
	if runtime == "docker" {
		enginetest.NeedImage(t, enginetest.Engine(t), p.image, "scripts/images all tf-legacy")
		args, env = append(args, "--ml-image", p.image), append(env, "DOCKER_HOST="+os.Getenv("DOCKER_HOST"))
	} else {
		args = append(args, "--python", p.interpreter(t))
	}
	e2etest.Start(t, "local", dir, env, args...).Ends(5 * time.Minute) // frameworks are slow to import beside other tests
	if t.Failed() {
		return
	}
	var summary struct {
		ModelsEqual bool `json:"models_equal"`
		Rounds      int
		Peers       []struct {
			Digest string `json:"model_sha256"`
		}
	}
	said, err := os.ReadFile(filepath.Join(dir, "out", "summary.json"))
	if err != nil || json.Unmarshal(said, &summary) != nil || len(summary.Peers) != 2 {
		t.Fatalf("summary: %v, %s", err, said)
	}
	if !summary.ModelsEqual || summary.Rounds < 3 || summary.Peers[0].Digest == "" || summary.Peers[0].Digest != summary.Peers[1].Digest {
		t.Errorf("the models are not one: %s", said)
	}
	for peer := range 2 {
		if info, err := os.Stat(filepath.Join(dir, "out", fmt.Sprintf("sl-%d", peer), p.saves)); err != nil || info.Size() == 0 {
			t.Errorf("peer %d has not saved its model: %v", peer, err)
		}
	}
}

// interpreter is the Python of the program's environment, which is made where it is not there yet.
func (p published) interpreter(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../../python/tools/env.sh", p.environment)
	var why strings.Builder
	cmd.Stderr = &why
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs the Python environment %s: %v\n%s", p.environment, err, e2etest.Last(why.String(), 3))
	}
	return strings.TrimSpace(string(out))
}

// writeRows writes a peer's data: 64 rows of 8 numbers between 0 and 1 and a class, 0 or 1, that they tell.
func writeRows(t *testing.T, dir string, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	var text strings.Builder
	for range 64 {
		sum := 0.0
		for range 8 {
			x := random.Float64()
			sum += x
			fmt.Fprintf(&text, "%.4f,", x)
		}
		class := 0
		if sum > 4 {
			class = 1
		}
		fmt.Fprintln(&text, class)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data.csv"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
