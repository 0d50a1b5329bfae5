package epoch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/epoch"
)

const id = "0123456789abcdef0123456789abcdef"

func TestPinReadsAsItIsWritten(t *testing.T) {
	recovered := epoch.Of(id, []ledger.Recovery{{SwarmID: id, Epoch: ledger.MaxEpoch}})
	for _, p := range []epoch.Pin{epoch.First(id), recovered} {
		got, err := epoch.Parse(p.String())
		if err != nil || got != p || len(p.String()) > 64 {
			t.Errorf("%q: %v, %v", p, got, err)
		}
		dir := t.TempDir()
		if err := epoch.Write(dir, p); err != nil {
			t.Fatal(err)
		}
		if got, err := epoch.Read(dir); err != nil || got != p {
			t.Errorf("kept %v, read %v, %v", p, got, err)
		}
	}
	if epoch.First(id).String() != id {
		t.Error("the first epoch is told to those who know none")
	}
	dir := t.TempDir()
	if p, err := epoch.Read(dir); err != nil || p != (epoch.Pin{}) {
		t.Errorf("an empty directory: %v, %v", p, err)
	}
	if err := epoch.Write(dir, recovered); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "swarm-epoch"), []byte(id+".2.x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := epoch.Read(dir); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestForgottenSwarmTakesItsEpochAlong: the pages say to delete the file with the swarm's ID, and a node has pinned an epoch in another.
func TestForgottenSwarmTakesItsEpochAlong(t *testing.T) {
	for _, other := range []string{"fedcba9876543210fedcba9876543210", id} {
		dir := t.TempDir()
		if err := epoch.Write(dir, epoch.Of(id, []ledger.Recovery{{SwarmID: id, Epoch: 2}})); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "swarm-id")); err != nil {
			t.Fatal(err)
		}
		if err := epoch.Write(dir, epoch.First(other)); err != nil {
			t.Fatal(err)
		}
		if p, err := epoch.Read(dir); err != nil || p != epoch.First(other) {
			t.Errorf("reads %v, %v", p, err)
		}
	}
}

func TestCompare(t *testing.T) {
	second := epoch.Of(id, []ledger.Recovery{{SwarmID: id, Epoch: 2}})
	another := epoch.Of(id, []ledger.Recovery{{SwarmID: id, Epoch: 2, Node: "sn-1"}})
	for _, c := range []struct {
		mine   epoch.Pin
		theirs string
		want   epoch.Relation
	}{
		{epoch.First(id), id, epoch.Same},
		{epoch.First(id), second.String(), epoch.Newer},
		{second, id, epoch.Older},
		{second, another.String(), epoch.Another},
		{second, second.String(), epoch.Same},
		{second, "5eed", epoch.Other},
		{second, "", epoch.Other},
	} {
		if got := c.mine.Compare(c.theirs); got != c.want {
			t.Errorf("%q to %q: %v, want %v", c.mine, c.theirs, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{id, id + ".2.0123456789abcdef01234567", id + ".1.0123456789abcdef01234567", id + ".02.0123456789abcdef01234567", ".", ".."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := epoch.Parse(s)
		if err == nil && (p.String() != s || len(s) > 64 || p.Compare(s) != epoch.Same) {
			t.Errorf("%q is read as %v", s, p)
		}
	})
}
