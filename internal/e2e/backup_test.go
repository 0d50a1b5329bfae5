package e2e_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestBackupOfASwarm: an SN that runs gives one, also when it is the last.
func TestBackupOfASwarm(t *testing.T) {
	t.Parallel()
	s := newStatefulSet(t)
	file := s.Path("swarm.backup")
	s.backedUp(0, file)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.until(0, "create", "contract", "after", "--method", "coordmedian")
	s.backedUp(1, file)
	if code, out := s.tool("swarmctl", "verify", "backup", file, "-o", "json"); code != 0 || !strings.Contains(out, `"after"`) || !strings.Contains(out, `"confirmed": true`) {
		t.Errorf("exit code %d, %s", code, out)
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 100_000 {
		t.Errorf("a backup of three nodes that have trained nothing: %+v, %v", info, err)
	}

	// What is cut off, garbled or another file is told apart.
	for name, raw := range map[string][]byte{
		"cut off":                   before[:len(before)/2],
		"is damaged":                bytes.Replace(before, []byte("sn-0"), []byte("sn-9"), 1),
		"not a backup of an SN":     []byte("my thesis"),
		"this program does not kno": bytes.Replace(before, []byte("backup 1"), []byte("backup 9"), 1),
	} {
		bad := s.Path("bad.backup")
		if err := os.WriteFile(bad, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := s.tool("swarmctl", "verify", "backup", bad); code != exit.Failed || !strings.Contains(out, name) {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
	}

	s.pods[0].Kill()
	s.pods[1].Kill()
	if code, out := s.at(2, "backup", "sn", file); code != 0 || !strings.Contains(out, "warning: sn-2 could not ask a majority of the SNs") {
		t.Errorf("the last SN: exit code %d, %s", code, out)
	}
}

// backedUp makes a backup at pod i.
func (s *statefulSet) backedUp(i int, file string) {
	s.T.Helper()
	if code, out := s.at(i, "backup", "sn", file); code != 0 || !strings.HasPrefix(out, "wrote "+file+": swarm ") || strings.Count(out, "\n") != 1 {
		s.T.Fatalf("swarmctl backup sn: exit code %d, %s", code, out)
	}
}
