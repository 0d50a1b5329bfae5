package backupfile_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/swci/backupfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// history is a backup of a swarm whose ledger holds these bundles, of the index that is their number.
func history(t *testing.T, swarm string, bundles ...byte) []byte {
	t.Helper()
	s, lines := state.New(), []byte(nil)
	commands := []state.Command{state.InitSwarm{SwarmID: strings.Repeat(swarm, 16), AtMS: 1}}
	for _, b := range bundles {
		commands = append(commands, state.BundleOf("hospital.example", [][]byte{{b}}, 1))
	}
	for _, c := range commands {
		next, result, err := s.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		s, lines = next, append(lines, bytes.Join(result.Records, nil)...)
	}
	var file bytes.Buffer
	err := backup.Write(&file, backup.Source{
		AtMS: 1, Index: uint64(len(bundles)), State: s, Origin: backup.Origin{SN: "sn-1"},
		Ledger: func(offset uint64) ([]byte, error) { return lines[offset:], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func gives(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// TestReplacesOnlyWhatItFollows: a backup that runs every hour replaces the one before, and never one that knows more.
func TestReplacesOnlyWhatItFollows(t *testing.T) {
	tests := []struct {
		name     string
		old, new []byte
		want     string // of the error; empty: it is replaced
	}{
		{"the first", nil, history(t, "aa", 1), ""},
		{"the same", history(t, "aa", 1), history(t, "aa", 1), ""},
		{"a later one", history(t, "aa", 1), history(t, "aa", 1, 2, 3), ""},
		{"after one without a ledger", history(t, "aa"), history(t, "aa", 1), ""},
		{"an earlier one", history(t, "aa", 1, 2), history(t, "aa", 1), "has what this SN lacks: 3 ledger records at index 2, the SN 2 at index 1"},
		{"another history", history(t, "aa", 1, 2), history(t, "aa", 1, 3, 4), "has what this SN lacks"},
		{"another swarm", history(t, "aa", 1), history(t, "bb", 1, 2), "is a backup of swarm aaaa"},
		{"no backup", []byte("my thesis"), history(t, "aa", 1), "exists and is no backup"},
		{"half of one", history(t, "aa", 1), history(t, "aa", 1, 2)[:300], "what has come does not read: the backup is cut off"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "swarm.backup")
			if tt.old != nil {
				if err := os.WriteFile(file, tt.old, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, err := backupfile.Write(file, false, gives(tt.new))
			want := tt.new
			if tt.want != "" {
				want = tt.old
				if err == nil || !strings.Contains(err.Error(), tt.want) || exit.Hint(err) == "" || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v, hint %q; want %q", err, exit.Hint(err), tt.want)
				}
			} else if err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the file has %d bytes, %v; want %d", len(got), err, len(want))
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("left in the folder: %v, %v", left, err)
			}
			if tt.want != "" {
				return
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %s, %v", info.Mode(), err)
			}
		})
	}
}

// TestBrokenStreamLeavesNothing: neither a file nor a part of one, and what was there stays.
func TestBrokenStreamLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "swarm.backup")
	broken := errors.New("connection reset")
	if _, err := backupfile.Write(file, true, func(w io.Writer) error {
		return errors.Join(gives(history(t, "aa", 1)[:200])(w), broken)
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	// A link is not written through, whoever made it.
	victim := filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, history(t, "aa", 1), 0o600), os.Symlink(victim, file)); err != nil {
		t.Fatal(err)
	}
	if _, err := backupfile.Write(file, false, gives(history(t, "aa", 1, 2))); exit.Code(err) != exit.Conflict {
		t.Errorf("over a link: %v", err)
	}
	if got, err := os.ReadFile(victim); err != nil || !bytes.Equal(got, history(t, "aa", 1)) {
		t.Errorf("through the link: %d bytes, %v", len(got), err)
	}
}
