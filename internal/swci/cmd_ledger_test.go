package swci_test

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestGetLedgerWritesOverNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "copy.jsonl")
	if out, err := run(t, "get", "ledger", "--sn", "10.0.0.1", "--out", file); err != nil || !strings.Contains(out, "wrote 2 records (8 bytes)") {
		t.Fatalf("%q, %v", out, err)
	}
	if _, err := run(t, "get", "ledger", "--sn", "10.0.0.1", "--out", file); exit.Code(err) != exit.Conflict || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a second copy: %v", err)
	}
	if _, err := run(t, "get", "ledger", "--sn", "10.0.0.1", "--out", file, "--force"); err != nil {
		t.Error(err)
	}
	if out, err := run(t, "get", "ledger", "--sn", "10.0.0.1", "--out", "-"); err != nil || out != "one\ntwo\n" {
		t.Errorf("to standard output: %q, %v", out, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestGetLedgerWritesThroughNoLink: whoever can make files in the folder can't have another file written.
func TestGetLedgerWritesThroughNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "copy.jsonl")
	for _, link := range []string{file, file + ".part"} {
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run(t, "get", "ledger", "--sn", "10.0.0.1", "--out", file); exit.Code(err) != exit.Conflict {
		t.Errorf("over a link: %v", err)
	}
	if _, err := run(t, "get", "ledger", "--sn", "10.0.0.1", "--out", file, "--force"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{victim: "precious", file: "one\ntwo\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", path, got, err)
		}
	}
}

func TestVerifyLedgerOfOneRecord(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	must(t, "cert", "init", ca)
	raw, err := os.ReadFile(filepath.Join(ca, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	first, head, err := ledger.Append(ledger.Head{}, 1, ledger.Swarm{SwarmID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	second, head, err := ledger.Append(head, 2, ledger.Bundle{TrustDomain: "swarm.learning", Certificates: [][]byte{block.Bytes}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ledger.jsonl")
	if err := os.WriteFile(file, append(first, second...), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := []string{"verify", "ledger", file, "--bundle", filepath.Join(ca, "ca.pem")}
	out, _ := must(t, append(verify, "--head", head.Hash)...)
	if !strings.Contains(out, "verified: the chain of 2 records is whole") || !strings.Contains(out, "swarm s1, head "+head.Hash) {
		t.Errorf("got %q", out)
	}
	if _, _, err := certRun(t, "verify", "ledger", file); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "--bundle") {
		t.Errorf("without a bundle: %v", err)
	}
	if _, _, err := certRun(t, "verify", "ledger", file+"x", "--bundle", filepath.Join(ca, "ca.pem")); exit.Code(err) != exit.NotFound {
		t.Errorf("without a file: %v", err)
	}
	if _, _, err := certRun(t, append(verify, "--head", "abc")...); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "--head") {
		t.Errorf("half a head: %v", err)
	}
	if _, _, err := certRun(t, "verify", "ledger", file, "--bundle", file); exit.Code(err) != exit.Usage || exit.Hint(err) == "" {
		t.Errorf("a bundle without certificates: %v, hint %q", err, exit.Hint(err))
	}
	out, _, err = certRun(t, append(verify, "--head", strings.Repeat("0", 64), "-o", "json")...)
	var got struct {
		Good     bool
		Problems []struct {
			Record int
			Field  string
		}
	}
	if jerr := json.Unmarshal([]byte(out), &got); jerr != nil || got.Good || len(got.Problems) != 1 || got.Problems[0].Record != 2 || got.Problems[0].Field != "hash" {
		t.Errorf("another head: %s, %v", out, jerr)
	}
	if exit.Code(err) != exit.Failed {
		t.Errorf("exit %d: %v", exit.Code(err), err)
	}
}
