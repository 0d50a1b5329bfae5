package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
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

// restores runs the command of docs/operations/backup.md for pod i.
func (s *statefulSet) restores(i int, file string, extra ...string) *e2etest.Proc {
	s.T.Helper()
	return e2etest.Start(s.T, "restore-sn", s.Dir, nil, append([]string{
		"swarmd", "restore-sn", file, "--state-dir", s.Path(fmt.Sprintf("sn%d", i+1)), "--name", fmt.Sprintf("sn-%d", i),
		"--host-ip", s.Addr(i + 1), "--identity", "embedded=" + s.Path("ca"),
	}, extra...)...)
}

// restored restores pod 0 and starts it and the others by their usual commands.
func (s *statefulSet) restored(file string) {
	s.T.Helper()
	p := s.restores(0, file)
	p.Ends(e2etest.Timeout)
	p.Sees("is restored as epoch 2 in ", "start SN sn-0 with its usual command")
	for i := range s.pods {
		s.pods[i] = s.start(i)
	}
	for _, p := range s.pods {
		p.Sees(apiMarker)
	}
}

// audited wants the ledger of pod i to be good, by the CA certificates of the founding.
func (s *statefulSet) audited(i int, ca string) {
	s.T.Helper()
	copied := s.Path("ledger.jsonl")
	if code, out := s.at(i, "get", "ledger", "--out", copied, "--force"); code != 0 {
		s.T.Fatalf("get ledger: exit code %d, %s", code, out)
	}
	if code, out := s.tool("swarmctl", "verify", "ledger", copied, "--bundle", ca); code != 0 || !strings.Contains(out, "epoch 2") {
		s.T.Errorf("the ledger: exit code %d, %s", code, out)
	}
}

// bundle keeps the CA certificates of the day.
func (s *statefulSet) bundle() string {
	s.T.Helper()
	ca := s.Path("founding-ca.pem")
	if code, out := s.tool("swarmctl", "get", "bundle", "--out", ca, "--identity", "embedded="+s.Path("ca")); code != 0 {
		s.T.Fatalf("get bundle: exit code %d, %s", code, out)
	}
	return ca
}

// TestSNsAreRestored follows docs/operations/backup.md: all SNs are lost with their disks, one is restored from a backup, two others join
// it. It is refused while SNs answer, and so is a backup that is cut off, or of another swarm.
func TestSNsAreRestored(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"swarmctl backup sn /srv", "swarmctl verify backup /srv", "swarmd restore-sn /srv/backup/study.backup --state-dir /var/lib/swarmd/sn-0 --name sn-0 --host-ip "} {
		if !strings.Contains(string(page), command) {
			t.Errorf("the page does not say %s", command)
		}
	}
	s := newStatefulSet(t)
	file, ca := s.Path("swarm.backup"), s.bundle()
	s.until(0, "create", "contract", "before")
	s.backedUp(0, file)
	s.until(0, "create", "contract", "lost")
	s.restores(3, file).Fails("the swarm lives: sn-0, sn-1, sn-2, 3 of the 3 SNs that the backup names, can be reached", "start this SN with its usual command")
	s.restores(0, file).Fails("state directory " + s.Path("sn1") + " is not empty")
	s.lose(1)
	s.lose(2)
	s.restores(2, file).Fails("sn-0 can be reached and may hold more than the backup: swarmd recover-sn there loses less")
	later := s.Path("later.backup")
	if code, out := s.at(0, "backup", "sn", later); code != 0 {
		t.Fatalf("backup sn: exit code %d, %s", code, out)
	}
	s.lose(0)

	bad := s.Path("bad.backup")
	whole, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(bad, whole[:len(whole)-100], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.restores(0, bad).Fails("the backup is cut off")
	s.restores(0, file, "--swarm-id", strings.Repeat("0", 32)).Fails("is a backup of swarm ", "not of swarm 0000")
	if _, err := os.Stat(s.Path("sn1")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("what was refused has left a state directory: %v", err)
	}

	s.restored(file)
	code, out := s.at(1, "list", "contracts")
	if code != 0 || !strings.Contains(out, "before") || strings.Contains(out, "lost") {
		t.Errorf("contracts: exit code %d, %s", code, out)
	}
	s.audited(2, ca)
	s.backedUp(1, file)
	if code, out := s.at(1, "backup", "sn", later); code != exit.Conflict || !strings.Contains(out, "has what this SN lacks") {
		t.Errorf("over a backup that has more: exit code %d, %s", code, out)
	}
	s.pods[2].Kill() // three SNs count: one may be lost
	s.until(0, "create", "contract", "after")
}

// TestTrainingOutlivesAllSNs follows docs/operations/backup.md: all SNs are lost with their disks while three SLs train. One is restored
// from a backup, two others join it, and the SLs, which nobody has touched, go on and agree.
func TestTrainingOutlivesAllSNs(t *testing.T) {
	t.Parallel()
	e2etest.NeedPython(t)
	s := newStatefulSet(t)
	var sls []*e2etest.Proc
	for i := 1; i <= 3; i++ {
		sls = append(sls, s.SL(i, "MIN_PEERS=3", "BATCHES=160", "BATCH_SECONDS=0.1"))
	}
	file, ca := s.Path("swarm.backup"), s.bundle()
	sls[0].Sees("round=5 ")
	s.backedUp(0, file)
	sls[0].Sees("round=9 ")
	for i := range s.pods {
		s.lose(i)
	}
	s.restored(file)
	for _, p := range sls {
		p.Ends(2 * e2etest.Timeout)
	}
	s.Agree(1, 2, 3)
	s.audited(1, ca)
}
