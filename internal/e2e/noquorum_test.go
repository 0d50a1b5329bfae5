package e2e_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const onlyOne = "no quorum: 1 of 3 SNs answer"

// soon is swarmctl, which must answer within seconds.
func (w *swarm) soon(args ...string) (code int, out string) {
	w.T.Helper()
	args = append([]string{"/usr/bin/timeout", "15", e2etest.BinDir + "/swarmctl"}, args...)
	return w.tool(append(args, "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))...)
}

// TestTwoOfThreeSNsAreGone: every command answers in the same words within seconds, with exit code 7, and nobody is shown as alive of
// whom nobody has heard. When one of the SNs is started again all is well.
func TestTwoOfThreeSNsAreGone(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	sl := w.attach(1)
	sl.Sees(registered)
	if code, out := w.swarmctl("create", "contract", "study", "--min-peers", "2"); code != 0 {
		t.Fatalf("exit code %d, %s", code, out)
	}
	sns[1].Kill()
	sns[2].Kill()
	sns[0].Sees(onlyOne)
	sl.Sees("no round is planned until the SNs have a quorum again", onlyOne)
	missing := "start one of sn-2 (" + w.Addr(2) + ":30303), sn-3 (" + w.Addr(3) + ":30303)"
	for _, command := range []string{
		"list nodes", "list contracts", "get contract status study", "explain contract study", "list models study", "get model study --out model.safetensors",
		"forget node sn-3", "ban node sn-2", "unban node sn-2", "create contract another", "reset contract study", "delete contract study",
		"list nodes --sn " + w.Addr(2) + " --sn " + w.Addr(3),
	} {
		code, out := w.soon(strings.Fields(command)...)
		if code != 7 || !strings.Contains(out, onlyOne) || !strings.Contains(out, missing) || !strings.Contains(out, "swarmd recover-sn --state-dir DIR") {
			t.Errorf("%s: exit code %d\n%s", command, code, out)
		}
	}
	_, out := w.soon("list", "nodes")
	for _, row := range []string{`sl-1 +sl .* unknown `, `sn-1 +sn .* alive `, `sn-2 +sn .* no answer `, `sn-3 +sn .* no answer `} {
		if !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("no line %q in\n%s", row, out)
		}
	}
	_, out = w.soon("list", "nodes", "-o", "json")
	doc, _, _ := strings.Cut(out, "\nswarmctl: ")
	var list struct {
		NoQuorum struct {
			Message string `json:"message"`
		} `json:"no_quorum"`
	}
	if err := json.Unmarshal([]byte(doc), &list); err != nil || list.NoQuorum.Message != onlyOne {
		t.Errorf("%v in %s", err, doc)
	}
	if err := os.WriteFile(w.Path("script"), []byte("exit on failure off\nlist nodes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out := w.soon("run-swci", "--usr-dir", w.Dir, "--init-script-name", "script"); !strings.Contains(out, onlyOne) {
		t.Errorf("at the prompt:\n%s", out)
	}
	if code, out := w.soon("get", "ledger", "--out", w.Path("ledger.jsonl")); code != 0 {
		t.Errorf("the ledger of the SN that is left: exit code %d\n%s", code, out)
	}

	// What it knew it may have lost when it is started again; why there is no answer it says all the same.
	sns[0].Kill()
	sns[0] = w.SN(1)
	sns[0].Sees(onlyOne)
	w.Until("an answer", func() bool { code, _ := w.soon("list", "nodes"); return code != 3 })
	for _, command := range []string{"list nodes", "forget node sn-3"} {
		if code, out := w.soon(strings.Fields(command)...); code != 7 || !strings.Contains(out, onlyOne) {
			t.Errorf("after a restart: %s: exit code %d\n%s", command, code, out)
		}
	}
	if strings.Contains(sns[0].Output(), apiMarker) {
		t.Error("an SN without a quorum says that it is ready")
	}

	w.SN(2).Sees(apiMarker)
	sns[0].Sees(apiMarker, "there is a quorum again")
	sl.Sees("the SNs have a quorum again")
	if n := strings.Count(sl.Output(), "no round is planned until"); n != 1 {
		t.Errorf("the SL says %d times that there is no quorum", n)
	}
	w.Until("the list of nodes", func() bool {
		code, out := w.soon("list", "nodes")
		return code == 0 && regexp.MustCompile(`sl-1 +sl .* alive `).MatchString(out)
	})
	if code, out := w.soon("reset", "contract", "study"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
