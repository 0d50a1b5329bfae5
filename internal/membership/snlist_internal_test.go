package membership

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/client"
)

const listed = "0123456789abcdef0123456789abcdef"

// TestSNList: what was learned last is there at the next start, for the swarm that it is of.
func TestSNList(t *testing.T) {
	dir := t.TempDir()
	l := OpenSNList(dir)
	if sns, err := l.Read(listed); sns != nil || err != nil {
		t.Errorf("without a file: %v, %v", sns, err)
	}
	want := []client.SN{{Name: "sn-0", Address: "10.0.0.1:30304"}, {Address: "[2001:db8::1]:1"}, {Name: "sn-2", Address: "sn-2.example:30304"}}
	told := slices.Concat(want, []client.SN{{Name: "sn-3", Address: "a b:1"}, {Name: "\x1b", Address: "sn-4:1"}, {Address: "sn-5:0"}, {Address: "sn-6"}})
	if err := l.Write(listed, told); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if sns, err := l.Read(listed); err != nil || !slices.Equal(sns, want) {
			t.Errorf("got %v, %v; want %v", sns, err, want)
		}
		// An SN that names none has not told anything.
		if err := l.Write(listed, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"", strings.Repeat("f", 32)} {
		if sns, err := l.Read(other); sns != nil || err != nil {
			t.Errorf("for swarm %q: %v, %v", other, sns, err)
		}
	}
	var many []client.SN
	for i := range 2 * maxSNsKept {
		many = append(many, client.SN{Name: strings.Repeat("n", 60), Address: fmt.Sprintf("%s.example:%d", strings.Repeat("a", 60), i+1)})
	}
	if err := l.Write(listed, many); err != nil {
		t.Fatal(err)
	}
	if sns, err := l.Read(listed); err != nil || !slices.Equal(sns, many[:maxSNsKept]) {
		t.Errorf("of many: %d, %v", len(sns), err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if info, statErr := os.Stat(l.path); err != nil || len(files) != 1 || statErr != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("left %v, %v, %v", files, info, statErr)
	}
}

// TestSNListThatIsDamaged: it is said, in one line that names the file, and nothing of it is used.
func TestSNListThatIsDamaged(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", `{"swarm_id":"x","sns":[]}`, `{"swarm_id":"` + listed + `","sns":[{"address":"10.0.0.1"}]}`,
		`{"swarm_id":"` + listed + `","sns":[{"address":"10.0.0.1:1"},{"address":"` + "a\\nb" + `:1"}]}`,
		`{"swarm_id":"` + listed + `","sns":[{"name":"a b","address":"10.0.0.1:1"}]}`,
		`{"swarm_id":"` + listed + `","sns":[` + strings.Repeat(`{"address":"10.0.0.1:1"},`, maxSNsKept) + `{"address":"10.0.0.1:1"}]}`,
		`{"swarm_id":"` + listed + `","sns":[]}` + strings.Repeat(" ", maxSNList),
	} {
		l := OpenSNList(t.TempDir())
		if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sns, err := l.Read(listed)
		if sns != nil || err == nil || !strings.Contains(err.Error(), l.path+" is damaged: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v, %v", text, sns, err)
		}
		if err := l.Write(listed, []client.SN{{Address: "sn:1"}}); err != nil {
			t.Error(err)
		}
		if sns, err := l.Read(listed); len(sns) != 1 || err != nil {
			t.Errorf("after %.80q: %v, %v", text, sns, err)
		}
	}
}

func FuzzParseSNList(f *testing.F) {
	f.Add([]byte(`{"swarm_id":"` + listed + `","sns":[{"name":"sn-0","address":"10.0.0.1:1"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept, err := parseSNList(raw)
		if err == nil && (len(raw) > maxSNList || len(kept.SNs) > maxSNsKept || slices.ContainsFunc(kept.SNs, func(sn client.SN) bool { return checkSN(sn) != nil })) {
			t.Errorf("%q is taken as %+v", raw, kept)
		}
	})
}
