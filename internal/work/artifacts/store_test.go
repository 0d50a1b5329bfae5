package artifacts_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

func newStore(t *testing.T) *artifacts.Store {
	t.Helper()
	return &artifacts.Store{Dir: filepath.Join(t.TempDir(), "artifacts"), Most: 100, Age: time.Hour, Log: slog.New(slog.DiscardHandler)}
}

func label(assignment string, epoch, member uint32) work.Label {
	return work.Label{Swarm: "s", Node: "h", Assignment: assignment, Epoch: epoch, Member: member}
}

// leave has a member leave files, and end.
func leave(t *testing.T, s *artifacts.Store, l work.Label, files map[string]string) {
	t.Helper()
	dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a host may be cut off in between
		if err := s.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
}

// packed is what is fetched: files by name, and what is said beside.
func packed(t *testing.T, s *artifacts.Store, assignment string) (all map[string]string, said []string) {
	t.Helper()
	return packedOf(t, s, artifacts.Of{Assignment: assignment})
}

func packedOf(t *testing.T, s *artifacts.Store, of artifacts.Of) (all map[string]string, said []string) {
	t.Helper()
	var b bytes.Buffer
	all = map[string]string{}
	err := s.Pack(t.Context(), of, &b, func(from, words string) error {
		said = append(said, from+": "+words)
		return nil
	})
	if errors.Is(err, artifacts.ErrNone) {
		return all, said
	}
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, said
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			t.Errorf("%s is a %c", h.Name, h.Typeflag)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			all[h.Name] = string(raw)
		}
	}
}

// TestWhatMembersLeave: it is kept by member, of the last epoch; what leads elsewhere is left out, and it is said.
func TestWhatMembersLeave(t *testing.T) {
	s := newStore(t)
	leave(t, s, label("7", 1, 0), map[string]string{"old": "x"})
	leave(t, s, label("7", 2, 0), map[string]string{"model.pt": "weights", "a/b": ""})
	leave(t, s, label("7", 2, 11), map[string]string{"log": "l"})
	leave(t, s, label("7", 2, 12), nil)
	leave(t, s, label("77", 9, 0), map[string]string{"other": "x"})
	if err := s.Keep(label("7", 3, 0)); err != nil { // one without artifacts
		t.Error(err)
	}
	got, said := packed(t, s, "7")
	if d := cmp.Diff(map[string]string{"node/0/model.pt": "weights", "node/0/a/b": "", "node/11/log": "l"}, got); d != "" || !slices.Equal(said, []string{"12: it has left nothing"}) {
		t.Error(d, said)
	}
	if got, said := packed(t, s, "8"); len(got)+len(said) > 0 {
		t.Error(got, said)
	}

	l := label("9", 1, 3)
	dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, strings.Repeat("x/"+strings.Repeat("y", 200)+"/", 5))
	if err := errors.Join(
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.WriteFile(filepath.Join(dir, "bad\xff"), nil, 0o600),
		os.MkdirAll(deep, 0o700), os.Mkdir(filepath.Join(dir, "shut"), 0o700), os.WriteFile(filepath.Join(dir, "shut", "f"), []byte("in"), 0), os.Chmod(filepath.Join(dir, "shut"), 0),
		s.Keep(l),
	); err != nil {
		t.Fatal(err)
	}
	got, said = packed(t, s, "9")
	if d := cmp.Diff(map[string]string{"node/3/shut/f": "in"}, got); d != "" || len(said) != 1 || !strings.HasPrefix(said[0], "node/3: 4 links, files that are none, or") {
		t.Error(d, said)
	}
}

// TestWhichStart: what an earlier start of an assignment has left is never taken for that of a later one, of which each member is accounted for.
func TestWhichStart(t *testing.T) {
	s := newStore(t)
	leave(t, s, label("7", 1, 0), map[string]string{"model": "old"})
	leave(t, s, label("7", 1, 1), map[string]string{"model": "old"})
	leave(t, s, label("7", 2, 0), nil)
	_, err := s.Make(label("7", 2, 1), "node", os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	nothing, runs := "0: it has left nothing", "1: it has not ended, or its host is not done with it yet: ask again then"
	none := "5: its host knows of none: it was not started there, or that was too long ago"
	old := map[string]string{"node/0/model": "old", "node/1/model": "old"}
	for name, tt := range map[string]struct {
		of   artifacts.Of
		got  map[string]string
		said []string
	}{
		"last":          {artifacts.Of{}, map[string]string{}, []string{nothing, runs}},
		"this one":      {artifacts.Of{Epoch: 2, Members: []uint32{0, 1, 5}}, map[string]string{}, []string{nothing, runs, none}},
		"an earlier":    {artifacts.Of{Epoch: 1, Members: []uint32{0, 1, 5}}, old, []string{none}},
		"one not known": {artifacts.Of{Epoch: 3, Members: []uint32{0}}, map[string]string{}, nil},
	} {
		tt.of.Assignment = "7"
		got, said := packedOf(t, s, tt.of)
		if d := cmp.Diff(tt.got, got); d != "" || !slices.Equal(said, tt.said) {
			t.Errorf("%s: %s, said %q", name, d, said)
		}
	}
	if err := s.Pack(t.Context(), artifacts.Of{Assignment: "7", Epoch: 3}, io.Discard, nil); !errors.Is(err, artifacts.ErrNone) {
		t.Error(err)
	}
}

// TestWhatIsNotNoted: what is kept counts also where the disk had no room for the note of how large it is, and gets it later.
func TestWhatIsNotNoted(t *testing.T) {
	s := newStore(t)
	sixty := strings.Repeat("x", 60)
	leave(t, s, label("1", 1, 0), map[string]string{"f": sixty})
	at := filepath.Join(s.Dir, "kept", "1_0000000001_0000000000")
	ago := time.Now().Add(-time.Minute)
	if err := errors.Join(os.Remove(filepath.Join(at, "size.txt")), os.Chtimes(at, ago, ago), s.Forget()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(at); err != nil || !info.ModTime().Equal(ago) {
		t.Error("to measure it is a use of it:", err)
	}
	if raw, err := os.ReadFile(filepath.Join(at, "size.txt")); err != nil || string(raw) != "60" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(at, "size.txt")), os.Chtimes(at, ago, ago)); err != nil {
		t.Fatal(err)
	}
	leave(t, s, label("2", 1, 0), map[string]string{"f": sixty})
	if got, said := packed(t, s, "1"); len(got) > 0 || len(said) != 1 || !strings.HasPrefix(said[0], "0: their host has made room") {
		t.Error(got, said)
	}
}

// TestWhatWasNotKeptAtItsEnd: it is kept when it is seen that nothing of its member is hosted any more, and not before.
func TestWhatWasNotKeptAtItsEnd(t *testing.T) {
	s := newStore(t)
	runs, lost, failed := label("7", 1, 0), label("7", 1, 1), errors.New("no engine")
	for _, l := range []work.Label{runs, lost} {
		dir, err := s.Make(l, "node", os.Geteuid(), os.Getegid())
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "model"), []byte("m"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sweep(func() ([]work.Label, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if got, _ := packed(t, s, "7"); len(got) > 0 {
		t.Error("nobody knows what is hosted:", got)
	}
	if err := s.Sweep(func() ([]work.Label, error) { return []work.Label{runs}, nil }); err != nil {
		t.Error(err)
	}
	got, said := packed(t, s, "7")
	if d := cmp.Diff(map[string]string{"node/1/model": "m"}, got); d != "" || len(said) != 1 || !strings.HasPrefix(said[0], "0: it has not ended") {
		t.Error(d, said)
	}
	if left, err := os.ReadDir(filepath.Join(s.Dir, "live")); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}

// TestWhatIsNotKept: too much, too old, and what was not used for longest goes; and it is said.
func TestWhatIsNotKept(t *testing.T) {
	s := newStore(t)
	use := func(assignment string, ago time.Duration) {
		t.Helper()
		at := time.Now().Add(-ago)
		if err := os.Chtimes(filepath.Join(s.Dir, "kept", assignment+"_0000000001_0000000000"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	sixty := strings.Repeat("x", 60)
	leave(t, s, label("1", 1, 0), map[string]string{"f": sixty})
	use("1", 20*time.Minute)
	leave(t, s, label("2", 1, 0), map[string]string{"f": sixty[:40]})
	use("2", 30*time.Minute)
	if got, said := packed(t, s, "2"); len(got) != 1 || len(said) > 0 { // which uses it
		t.Error(got, said)
	}
	leave(t, s, label("3", 1, 0), map[string]string{"f": sixty})
	for assignment, want := range map[string]string{"1": "0: their host has made room for those of other members", "2": "", "3": ""} {
		got, said := packed(t, s, assignment)
		if (len(got) == 1) != (want == "") || want != "" && (len(said) != 1 || !strings.HasPrefix(said[0], want)) {
			t.Errorf("%s: %v, %q", assignment, got, said)
		}
	}
	use("3", 2*time.Hour)
	if got, said := packed(t, s, "3"); len(got) > 0 || len(said) != 1 || !strings.HasPrefix(said[0], "0: nobody has fetched them for 1h0m0s") {
		t.Error(got, said)
	}
	leave(t, s, label("4", 1, 0), map[string]string{"f": sixty, "g": sixty})
	if got, said := packed(t, s, "4"); len(got) > 0 || len(said) != 1 || !strings.HasPrefix(said[0], "0: they had 120 bytes, and their host keeps 100 in all") {
		t.Error(got, said)
	}
	use("1", 5*time.Hour)
	if err := s.Forget(); err != nil {
		t.Error(err)
	}
	if got, said := packed(t, s, "1"); len(got)+len(said) > 0 {
		t.Error("what was forgotten for long is still told:", got, said)
	}
}

// TestArtifactsWithOddNames: what a member has left is kept and counted, whatever it has called its folders.
func TestArtifactsWithOddNames(t *testing.T) {
	s := newStore(t)
	leave(t, s, label("7", 1, 0), map[string]string{"f": "x", "\xff/deep/g": "y"})
	all, said := packed(t, s, "7")
	if diff := cmp.Diff(all, map[string]string{"node/0/f": "x"}); diff != "" || len(said) != 1 || !strings.Contains(said[0], "node/0: 1 links, files that are none, or with names that are too long or no text") {
		t.Error(diff, said)
	}
	leave(t, s, label("8", 1, 0), map[string]string{"\xff/h": strings.Repeat("x", 101)})
	if all, said := packed(t, s, "8"); len(all) > 0 || len(said) != 1 || !strings.Contains(said[0], "they had 101 bytes") {
		t.Error(all, said)
	}
}
