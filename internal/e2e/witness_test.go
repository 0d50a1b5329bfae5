package e2e_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const (
	witnessedBatches = 12
	witnessedSize    = 20_000
)

// TestTrainingGoesOnDespiteAWrongMerge has one of five SLs merge its part of the model wrongly, and tell everybody the same, while three
// merge each part. It is named and left out, and the model that they end with is the one that the test computes from what the
// other four handed in, to the bit.
func TestTrainingGoesOnDespiteAWrongMerge(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	wrong := swarmdThat(t, "merge/exchange/store.go", "return s.put(leaf, spare, merged)", `return s.put(leaf, spare, func(dst []byte) error {
			err := merged(dst)
			dst[len(dst)/2] ^= 1
			return err
		})`)
	w := newSwarm(t)
	w.namedAuthority("nobody", "/swarm/sl/nobody", 5)
	sn := w.SN(1)
	sn.Sees(apiMarker)
	if code, out := w.swarmctl("create", "contract", "e2e", "--witnesses", "3"); code != 0 {
		t.Fatalf("create contract: %d: %s", code, out)
	}
	weights := []int{1, 1, 2, 4, 1} // those of the four sum up to eight: float32 holds every mean exactly
	var sls []*e2etest.Proc
	for i := 1; i <= 5; i++ {
		args := w.SLArgs(i, "WHOLE=1", "MIN_PEERS=4", fmt.Sprintf("WEIGHT=%d", weights[i-1]), "--expected-peers=5", "--sn-ip="+w.Addr(1),
			fmt.Sprintf("SIZE=%d", witnessedSize), fmt.Sprintf("BATCHES=%d", witnessedBatches), "BATCH_SECONDS=0.1")
		if i == 5 {
			args[0] = wrong
		}
		sls = append(sls, e2etest.Start(t, fmt.Sprintf("sl-%d", i), w.Dir, nil, args...))
	}
	sn.Sees("failed: sl-5: it merged it otherwise than most who merged sl-5's part")
	for _, p := range sls[:4] {
		p.Ends(2 * e2etest.Timeout)
	}
	end := w.Agree(1, 2, 3, 4)
	if want := meanOfFour(weights[:4]); end.SHA256 != want {
		t.Errorf("the model's digest is %s, want %s: the mean of what the four honest SLs handed in", end.SHA256, want)
	}
	t.Logf("%d rounds", end.Rounds)
	ledger, ca := w.Path("ledger"), w.Path("ca.pem")
	for _, args := range [][]string{
		{"get", "ledger", "--sn", w.Addr(1) + ":30304", "--identity", "embedded=" + w.Path("ca"), "--out", ledger},
		{"get", "bundle", "--identity", "embedded=" + w.Path("ca"), "--out", ca},
		{"verify", "ledger", ledger, "--bundle", ca},
	} {
		if code, out := w.tool(append([]string{"swarmctl"}, args...)...); code != 0 {
			t.Errorf("%s: %d: %s", strings.Join(args, " "), code, out)
		}
	}
}

// swarmdThat builds a swarmd in which one line of a file of this repository is another, and returns its path.
func swarmdThat(t *testing.T, file, line, instead string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path, dir := filepath.Join(root, file), t.TempDir()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), line) != 1 {
		t.Fatalf("%s does not hold %q once", file, line)
	}
	changed := filepath.Join(dir, filepath.Base(file))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(strings.Replace(string(text), line, instead, 1)), filepath.Join(dir, "overlay"): overlay} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command(filepath.Join(root, "scripts", "build"), filepath.Join(dir, "bin"))
	build.Env = append(os.Environ(), strings.TrimSpace("GOFLAGS=-overlay="+filepath.Join(dir, "overlay")+" "+os.Getenv("GOFLAGS")))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "bin", "swarmd")
}

// meanOfFour is the digest of the model that train.py with WHOLE=1 must end with at SLs of these weights, as meanOfHonest.
func meanOfFour(weights []int) string {
	var raw []byte
	for i := range witnessedSize {
		sum := 0
		for sl, weight := range weights {
			for step := range witnessedBatches + 1 {
				sum += weight * ((7*(sl+1)+13*step+31*i)%19 - 9)
			}
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(sum)/8))
	}
	raw = append(raw, make([]byte, 3*8)...) // "b"
	digest := sha256.Sum256(raw)
	return hex.EncodeToString(digest[:])
}
