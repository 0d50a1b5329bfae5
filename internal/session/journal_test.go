package session_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/internal/session"
)

func TestJournalOutlivesTheDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.json")
	log := slog.New(slog.DiscardHandler)
	j := session.OpenJournal(path, log)
	if got := j.Record(); got.Incarnation != "" || got.Session != nil {
		t.Errorf("a journal without a file says %+v", got)
	}
	j.Begin("0123", "python train.py", "container, no network", false)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	again := session.OpenJournal(path, log)
	if got := again.Record(); got.Incarnation != "0123" || got.Program != "python train.py" || got.Isolation != "container, no network" || got.Exit != nil {
		t.Errorf("got %+v", got)
	}
	again.End(3)
	if got := session.OpenJournal(path, log).Record(); got.Incarnation != "" || got.Exit == nil || *got.Exit != 3 {
		t.Errorf("after the end: %+v", got)
	}
	again.Forget()
	again.Forget()
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("forgetting left %v", left)
	}
}

// TestJournalThatCannotBeWritten: no record is better than one that lags.
func TestJournalThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	path := filepath.Join(dir, "session.json")
	j := session.OpenJournal(path, slog.New(slog.NewTextHandler(&said, nil)))
	j.Begin("1", "", "", false)
	for _, incarnation := range []string{"2", "3"} {
		if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil { // also root can't put a file in its place
			t.Fatal(err)
		}
		j.Begin(incarnation, "", "", false)
	}
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 {
		t.Errorf("said it %d times:\n%s", n, said.String())
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("an old record stays: %v", err)
	}
}

func TestDamagedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rec, _ := recorded(t, &ledSwarm{swarm: newSwarm()})
		good, err := os.ReadFile(l.record(1))
		if err != nil {
			t.Fatal(err)
		}
		l.begin(1)
		for _, c := range []struct{ what, from, to string }{
			{"cut", string(good[len(good)/2:]), ""},
			{"another version", `"version":1`, `"version":2`},
			{"another session", rec.ID, strings.Repeat("0", 31) + "g"},
			{"another contract", `"contract":"c"`, `"contract":"d"`},
			{"no digest", `"digest":"`, `"digest":"x`},
			{"no slot", `"held_slot":"merged-0",`, ""},
			{"an answer that is none", `"pending":false`, `"pending":true`},
			{"an interval that no SN gave", `"interval":`, `"interval":-`},
			{"a broken layout", `"layout":"`, `"layout":"AAAA`},
		} {
			bad := strings.Replace(string(good), c.from, c.to, 1)
			if bad == string(good) {
				t.Fatalf("%s: nothing to replace in %s", c.what, good)
			}
			if _, err := session.ParseRecord([]byte(bad)); err == nil {
				t.Errorf("%s: taken: %s", c.what, bad)
			}
		}
		var said bytes.Buffer
		if err := os.WriteFile(l.record(7), good[:len(good)-3], 0o600); err != nil {
			t.Fatal(err)
		}
		j := session.OpenJournal(l.record(7), slog.New(slog.NewTextHandler(&said, nil)))
		if j.Record().Session != nil || !strings.Contains(said.String(), "can't be used") {
			t.Errorf("a cut file: %+v, said %s", j.Record(), said.String())
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"life":"a","exit":0}`))
	f.Add([]byte(`{"version":1,"session":{"id":"00000000000000000000000000000000","contract":"c","open":{"session":"00000000000000000000000000000000","contract":"c"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := session.ParseRecord(b); err == nil && r.Version != 1 {
			t.Errorf("took version %d", r.Version)
		}
	})
}
