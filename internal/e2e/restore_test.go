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
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestSNsRestoredBehindTheSLs copies the state directories of three SNs, lets the SLs train on, and starts the SNs with the copies. Training
// goes on from the newest model that the SLs hold: it ends with what all of them added, no number names two models, and the ledger says
// what it lacks.
func TestSNsRestoredBehindTheSLs(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	ca := w.Path("founding.pem")
	if code, out := w.tool("swarmctl", "get", "bundle", "--identity", "embedded="+w.Path("ca"), "--out", ca); code != 0 {
		t.Fatalf("get bundle: %d %s", code, out)
	}
	const peers, batches = 4, 50
	sls := w.trains(peers, "WHOLE=1", fmt.Sprintf("MIN_PEERS=%d", peers), fmt.Sprintf("BATCHES=%d", batches), "BATCH_SECONDS=0.1")
	again := func(from, to string) {
		for _, p := range sns {
			p.Stop()
		}
		for i := range sns {
			name := fmt.Sprintf("sn%d", i+1)
			if err := os.RemoveAll(w.Path(to, name)); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("cp", "-a", w.Path(from, name), w.Path(to, name)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		for i := range sns {
			sns[i] = w.SN(i + 1)
		}
		for _, p := range sns {
			p.Sees(apiMarker)
		}
	}
	if err := os.Mkdir(w.Path("backup"), 0o700); err != nil {
		t.Fatal(err)
	}
	sls[0].Sees("model handed to the program", "round=3 ")
	again("", "backup")
	sls[0].Sees("round=8 ")
	again("backup", "")
	for _, p := range sns {
		p.Sees("training goes on from a model that the SNs did not know")
	}
	sls[0].Sees("the SNs were restored from a backup; training goes on from the newest model that most nodes have signed")
	finish(t, sls...)
	end := w.Agree(1, 2, 3, 4)
	if want := meanOfWhole(peers, batches); end.SHA256 != want {
		t.Errorf("the final model is %.12s, want the mean of all that was added, %.12s", end.SHA256, want)
	}
	for _, p := range sls {
		numbersOnce(t, p)
	}

	file := w.Path("copy")
	if code, out := w.swarmctl("get", "ledger", "--out", file); code != 0 {
		t.Fatalf("get ledger: %d %s", code, out)
	}
	_, out := w.tool("swarmctl", "verify", "ledger", file, "--bundle", ca, "-o", "json")
	var report struct {
		Good      bool
		Contracts []struct {
			Name      string
			Over      bool
			Adoptions []struct {
				Last   int `json:"last_round"`
				Proven int `json:"proven_round"`
				Round  int
				Signed int
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Good {
		t.Fatalf("verify ledger: %v: %s", err, out)
	}
	for _, c := range report.Contracts {
		if c.Name != "e2e" {
			continue
		}
		if len(c.Adoptions) != 1 || !c.Over {
			t.Fatalf("the ledger says %+v", c)
		}
		a := c.Adoptions[0]
		t.Logf("%+v", a)
		if a.Last < 3 || a.Last >= 8 || a.Proven < 7 || a.Round <= a.Proven || a.Signed <= peers/2 {
			t.Errorf("adopted: %+v", a)
		}
	}
}

var handedOver = regexp.MustCompile(`model handed to the program .*round=(\d+)`)

// numbersOnce wants each round's number to have come to a program once, in their order.
func numbersOnce(t *testing.T, sl *e2etest.Proc) {
	t.Helper()
	var rounds []int
	for _, m := range handedOver.FindAllStringSubmatch(sl.Output(), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, n)
	}
	if len(rounds) < 10 || !slices.IsSorted(rounds) || len(slices.Compact(slices.Clone(rounds))) != len(rounds) {
		t.Errorf("%s was given the rounds %v", sl.Name, rounds)
	}
}

// meanOfWhole is the digest of the model that train.py with WHOLE=1 must end with at SLs of equal weights, as meanOfHonest.
func meanOfWhole(peers, batches int) string {
	var raw []byte
	for i := range 1000 {
		sum := 0
		for sl := 1; sl <= peers; sl++ {
			for step := range batches + 1 {
				sum += (7*sl+13*step+31*i)%19 - 9
			}
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(sum)/float32(peers)))
	}
	raw = append(raw, make([]byte, 3*8)...) // "b"
	digest := sha256.Sum256(raw)
	return hex.EncodeToString(digest[:])
}
