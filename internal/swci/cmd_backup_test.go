package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// ReadBackup gives a backup of a swarm without a ledger, which no SN of a majority has confirmed.
func (*fakeAPI) ReadBackup(_ context.Context, w io.Writer) (int64, error) {
	s, _, err := state.New().Apply(state.InitSwarm{SwarmID: strings.Repeat("ab", 16), AtMS: 1})
	if err != nil {
		return 0, err
	}
	var b bytes.Buffer
	if err := backup.Write(&b, backup.Source{AtMS: 1, Index: 7, State: s, Origin: backup.Origin{SN: "sn-1"}}); err != nil {
		return 0, err
	}
	return b.WriteTo(w)
}

func TestBackupIsWrittenAndVerified(t *testing.T) {
	file := filepath.Join(t.TempDir(), "swarm.backup")
	const line = "swarm abababababababababababababababab at index 7, 0 ledger records, nothing trained; "
	out, err := run(t, "backup", "sn", file, "--sn", "10.0.0.1")
	if err != nil || !strings.HasPrefix(out, "wrote "+file+": "+line) || !strings.HasSuffix(out, " bytes from sn-1\n") || strings.Count(out, "\n") != 1 {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := run(t, "backup", "sn", file, "--sn", "10.0.0.1"); err != nil {
		t.Errorf("over an earlier one: %v", err)
	}
	if out, err = run(t, "verify", "backup", file); err != nil || !strings.HasPrefix(out, file+" is whole: "+line) {
		t.Errorf("%q, %v", out, err)
	}
	var got struct {
		SN        string `json:"sn"`
		Confirmed bool
		Contracts []struct{ Name string }
	}
	out, err = run(t, "verify", "backup", file, "-o", "json")
	if jerr := json.Unmarshal([]byte(out), &got); err != nil || jerr != nil || got.SN != "sn-1" || got.Confirmed || len(got.Contracts) != 1 {
		t.Errorf("%s, %v, %v", out, err, jerr)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)-100], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "verify", "backup", file); exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "the backup is cut off") || exit.Hint(err) == "" {
		t.Errorf("half of it: %v, hint %q", err, exit.Hint(err))
	}
	if _, err := run(t, "verify", "backup", file+"x"); exit.Code(err) != exit.NotFound {
		t.Errorf("none: %v", err)
	}
}
