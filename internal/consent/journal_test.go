package consent_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/consent"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestACrashLeavesPartOfALine: it is cut off, and what stood before it counts.
func TestACrashLeavesPartOfALine(t *testing.T) {
	for name, part := range map[string]string{
		"half a line": `{"assignment":"8","ord`, "zeros": strings.Repeat("\x00", 4096), "a whole entry without its end": "again",
		"a long part": strings.Repeat("x", 128<<10), "a line of which a block is missing": `{"assignment":"8","ord` + strings.Repeat("\x00", 512) + `"decided_ms":1}` + "\n",
	} {
		w := newWorld(t)
		if got := w.guard().Ask(t.Context(), w.assigned(request(), ann), pull()); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
		path := filepath.Join(w.dir, consent.JournalName)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if part == "again" {
			part = string(bytes.TrimSuffix(bytes.Replace(whole, []byte(`"7"`), []byte(`"8"`), 1), []byte("\n")))
		}
		if err := os.WriteFile(path, append(bytes.Clone(whole), part...), 0o600); err != nil {
			t.Fatal(err)
		}
		g := w.guard()
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s: %q, %v", name, now, err)
		}
		if _, known := w.journal.Find("8"); known {
			t.Errorf("%s: what was not whole is known", name)
		}
		if err := g.Ended("7", 1, "done"); err != nil {
			t.Error(err)
		}
		if got := w.guard().Ask(t.Context(), w.assigned(request(), ann), pull()); got.Decision != consent.Refused {
			t.Errorf("%s: afterwards %v", name, got)
		}
	}
}

// TestAJournalThatWasChanged: a host that may have forgotten what it did does not begin.
func TestAJournalThatWasChanged(t *testing.T) {
	const entry = `{"assignment":"7","order":"o","by":"b","task":"t","digest":"d","received_ms":1,"expires_ms":1,"decision":"allowed","decided_ms":1}` + "\n"
	for name, text := range map[string]string{
		"":                       entry + entry,
		"a line that is no JSON": "x\n" + entry,
		"an empty line":          "\n" + entry,
		"an unknown field":       strings.Replace(entry, "{", `{"new":1,`, 1),
		"no ID":                  strings.Replace(entry, `"7"`, `"x"`, 1),
		"no digest":              strings.Replace(entry, `"digest":"d",`, "", 1),
		"an unknown decision":    strings.Replace(entry, "allowed", "perhaps", 1),
		"approved by nobody":     strings.Replace(entry, "allowed", "approved", 1),
		"ended, not begun":       strings.Replace(entry, "}", `,"ended_ms":1}`, 1),
		"begun in no epoch":      strings.Replace(entry, "}", `,"began_ms":1}`, 1),
		"two on a line":          strings.TrimSuffix(entry, "\n") + entry,
		"a long line":            `{"assignment":"` + strings.Repeat("7", 128<<10) + "\n",
		"no digest of its image": strings.Replace(entry, "}", `,"image":{"name":"a","id":"x"}}`, 1),
		"no image at all":        strings.Replace(entry, "}", `,"image":{}}`, 1),
		"a long text":            strings.Replace(entry, `"o"`, `"`+strings.Repeat("o", 4096)+`"`, 1),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, consent.JournalName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := consent.OpenJournal(dir, quiet())
		switch {
		case name == "" && err != nil:
			t.Error(err)
		case name != "" && (err == nil || !strings.Contains(err.Error(), "move the file away")):
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAJournalIsBounded: the file is written anew when it has many lines, and what has expired long ago gives way to what is new.
func TestAJournalIsBounded(t *testing.T) {
	dir, many := t.TempDir(), strings.Builder{}
	day := 24 * time.Hour
	now := time.Now()
	for i := range consent.MaxEntries {
		expires := now.Add(-2 * day)
		if i%2 == 0 {
			expires = now.Add(day)
		}
		began := ""
		if i%4 == 1 {
			began = `,"epoch":1,"began_ms":1` // it runs
		}
		many.WriteString(`{"assignment":"` + strconv.Itoa(i+10) + `","order":"o","by":"b","task":"t","digest":"d","received_ms":` + strconv.Itoa(i+1) +
			`,"expires_ms":` + strconv.FormatInt(expires.UnixMilli(), 10) + `,"decision":"allowed","decided_ms":1` + began + "}\n")
	}
	if err := os.WriteFile(filepath.Join(dir, consent.JournalName), []byte(many.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.dir = dir
	if got := w.guard().Ask(t.Context(), w.assigned(request(), ann), pull()); got.Decision != consent.Allowed {
		t.Fatal(got)
	}
	w.guard()
	if _, known := w.journal.Find("7"); !known {
		t.Error("the new one is not known")
	}
	for i := range consent.MaxEntries {
		_, known := w.journal.Find(strconv.Itoa(i + 10))
		if gone := i%4 == 3; known == gone {
			t.Fatalf("assignment %d: known %t", i, known)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, consent.JournalName))
	if lines := bytes.Count(raw, []byte("\n")); err != nil || lines != consent.MaxEntries*3/4+1 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// journalOf writes a journal of n assignments by somebody that expire in a day, whose entries end with the rest.
func (w *world) journalOf(n int, by, rest string) {
	w.t.Helper()
	many := strings.Builder{}
	for i := range n {
		many.WriteString(`{"assignment":"` + strconv.Itoa(i+10) + `","order":"o","by":"` + by + `","task":"t","digest":"d","received_ms":` + strconv.Itoa(i+1) + `,"expires_ms":` +
			strconv.FormatInt(time.Now().Add(24*time.Hour).UnixMilli(), 10) + `,"decided_ms":1,` + rest + "}\n")
	}
	if err := os.WriteFile(filepath.Join(w.dir, consent.JournalName), []byte(many.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// TestAFullJournal: nobody fills it for others, and what was never begun gives way to what is new. What was begun is never forgotten before
// it has expired: it could be done twice.
func TestAFullJournal(t *testing.T) {
	const annID, other, begun, asked = "spiffe://a.example" + ann, "spiffe://b.example/swarm/swci/x", `"decision":"allowed","epoch":1,"began_ms":1,"ended_ms":2`, `"decision":"asked"`
	for name, tt := range map[string]struct {
		n        int
		by, rest string
		want     string // in the words; empty: it is allowed
		left     int    // of the old ones
		oldest   bool   // the oldest one
	}{
		"begun by others":              {n: consent.MaxOfDomain, by: other, rest: begun, left: consent.MaxOfDomain, oldest: true},
		"begun by the same":            {n: consent.MaxOfOne, by: annID, rest: begun, left: consent.MaxOfOne, oldest: true, want: "of spiffe://a.example/swarm/swci/ann that have not expired"},
		"begun by its domain":          {n: consent.MaxOfDomain, by: "spiffe://a.example/swarm/swci/eve", rest: begun, left: consent.MaxOfDomain, oldest: true, want: "of operators of a.example that have"},
		"begun by all":                 {n: consent.MaxEntries, by: other, rest: begun, left: consent.MaxEntries, oldest: true, want: "of all operators that have"},
		"waits by the same":            {n: consent.MaxOfOne, by: annID, rest: asked, left: consent.MaxOfOne * 3 / 4},
		"waits by others":              {n: consent.MaxEntries, by: other, rest: asked, left: consent.MaxEntries * 3 / 4},
		"refused by an approver":       {n: consent.MaxOfOne, by: annID, rest: `"decision":"refused","approver":"bob"`, left: consent.MaxOfOne, oldest: true, want: "that have not expired"},
		"one less of the same":         {n: consent.MaxOfOne - 1, by: annID, rest: begun, left: consent.MaxOfOne - 1, oldest: true},
		"refused, of an older version": {n: consent.MaxEntries, by: other, rest: `"decision":"refused"`, left: consent.MaxEntries * 3 / 4},
		"more than there is room for":  {n: consent.MaxEntries + 100, by: other, rest: asked, left: consent.MaxEntries * 3 / 4},
		"more, and all of them begun":  {n: consent.MaxEntries + 1, by: other, rest: begun, left: consent.MaxEntries + 1, oldest: true, want: "has begun 4097 assignments of all operators"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.journalOf(tt.n, tt.by, tt.rest)
			got := w.guard().Ask(t.Context(), w.assigned(request(), ann), pull())
			if tt.want == "" && got.Decision != consent.Allowed || tt.want != "" && (got.Decision != consent.Asked || !strings.Contains(w.log.String(), tt.want)) {
				t.Errorf("got %v", got)
			}
			w.guard() // as the file has it
			left := 0
			for i := range tt.n {
				if _, known := w.journal.Find(strconv.Itoa(i + 10)); known {
					left++
				}
			}
			if _, there := w.journal.Find("10"); left != tt.left || there != tt.oldest {
				t.Errorf("%d of %d are left, the oldest: %v", left, tt.n, there)
			}
		})
	}
}

// TestARefusedSubmitterLeavesNothing: what the policy refuses by itself is told, and not kept.
func TestARefusedSubmitterLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.policy.Verdict = consent.Verdict{Decision: consent.Refused, Sentence: "no"}
	g := w.guard()
	for i := range 3 {
		q := request()
		q.ID = strconv.Itoa(i + 1)
		if got := g.Ask(t.Context(), w.assigned(q, ann), pull()); got.Decision != consent.Refused {
			t.Errorf("got %v", got)
		}
		if e, known := w.journal.Find(q.ID); known {
			t.Errorf("the journal has %+v", e)
		}
	}
	if n := strings.Count(w.log.String(), "decision=refused"); n != 3 {
		t.Errorf("%d refusals are in the log:\n%s", n, w.log)
	}
}

// TestManyLinesOfFew: the steps of few assignments do not make the file grow for ever.
func TestManyLinesOfFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.guard()
		line := `{"assignment":"9","order":"o","by":"b","task":"t","digest":"d","received_ms":1,"expires_ms":1,"decision":"refused","decided_ms":1}` + "\n"
		path := filepath.Join(w.dir, consent.JournalName)
		if err := os.WriteFile(path, []byte(strings.Repeat(line, 1100)), 0o600); err != nil {
			t.Fatal(err)
		}
		g := w.guard()
		if got := g.Ask(t.Context(), w.assigned(request(), ann), pull()); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
		if err := g.Ended("7", 1, "done"); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if lines := bytes.Count(raw, []byte("\n")); err != nil || lines != 3 {
			t.Errorf("%d lines, %v", lines, err)
		}
		w.guard()
		if e, _ := w.journal.Find("7"); e.EndedMS == 0 {
			t.Errorf("%+v", e)
		}
	})
}

// TestAJournalThatLosesItsName: a file without a name would be gone after a restart, so nothing is written to it.
func TestAJournalThatLosesItsName(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	if got := g.Ask(t.Context(), w.assigned(request(), ann), pull()); got.Decision != consent.Allowed {
		t.Fatal(got)
	}
	path, aside := filepath.Join(w.dir, consent.JournalName), w.dir+".aside"
	next := func(id string) consent.Answer {
		q := request()
		q.ID = id
		return g.Ask(t.Context(), w.assigned(q, ann), pull())
	}
	if err := os.Rename(w.dir, aside); err != nil {
		t.Fatal(err)
	}
	if got := next("8"); got.Decision != consent.Asked || !strings.Contains(w.log.String(), "write journal of assignments") {
		t.Errorf("without its directory: %v", got)
	}
	if err := os.Rename(aside, w.dir); err != nil {
		t.Fatal(err)
	}
	if got := next("8"); got.Decision != consent.Allowed {
		t.Errorf("with it again: %v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := next("9"); got.Decision != consent.Allowed {
		t.Errorf("a file that was removed: %v", got)
	}
	if err := errors.Join(os.Rename(path, path+".mine"), os.WriteFile(path, []byte("another's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := next("10"); got.Decision != consent.Asked || !strings.Contains(w.log.String(), "another file is at") || strings.Contains(got.Words, w.dir) {
		t.Errorf("another's file: %v", got)
	}
	if raw, err := os.ReadFile(path); string(raw) != "another's" {
		t.Errorf("another's file has %q, %v", raw, err)
	}
	if err := os.Rename(path+".mine", path); err != nil {
		t.Fatal(err)
	}
	w.guard()
	for id, want := range map[string]bool{"7": true, "8": true, "9": true, "10": false} {
		if _, known := w.journal.Find(id); known != want {
			t.Errorf("after a restart assignment %s: known %t", id, known)
		}
	}
}

// FuzzJournal: whatever the file has, a journal opens with entries that keep their bounds, and opens the same again; or it does not open.
func FuzzJournal(f *testing.F) {
	const entry = `{"assignment":"7","order":"o","by":"b","task":"t","digest":"d","received_ms":1,"expires_ms":1,"decision":"allowed","decided_ms":1}` + "\n"
	f.Add([]byte(entry + entry[:20]))
	f.Add([]byte(entry + strings.Replace(entry, "}", `,"epoch":1,"began_ms":1,"ended_ms":2,"words":"x"}`, 1)))
	f.Add([]byte("\x00\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, consent.JournalName)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := consent.OpenJournal(dir, quiet())
		if err != nil {
			return
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(raw, kept) || len(kept) > 0 && kept[len(kept)-1] != '\n' {
			t.Fatalf("kept %q, %v", kept, err)
		}
		if j, err = consent.OpenJournal(dir, quiet()); err != nil {
			t.Fatalf("it does not open again: %v", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
