package proof_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session/proof"
)

func merged(n uint64, participants int) (*round.Plan, *round.Done) {
	p := &round.Plan{Run: 1, Round: n, Attempt: 2, Method: "mean", LedgerHead: "head"}
	for range participants {
		p.Participants = append(p.Participants, &round.Participant{Session: "s", Node: "sl-0", PeerID: "key", Host: "10.0.0.1", FSPort: 1, Seq: 9, SPIFFEID: "id", Shards: []state.LeafRun{{Leaves: 3}}})
	}
	return p, &round.Done{Round: n, Attempt: 2, ModelDigest: "model", Signature: []byte{1}, Seals: [][]byte{{2}}, ShardDigests: []string{"shard"}, ShardsDigest: "shards"}
}

func rounds(told []*round.Proof) (out []uint64) {
	for _, p := range told {
		out = append(out, p.Plan.Round)
	}
	return out
}

// TestHistoryKeepsTheNewest: whatever the order in which rounds come, from the disk or as they are committed.
func TestHistoryKeepsTheNewest(t *testing.T) {
	var b proof.History
	if b.Told() != nil || b.Of(round.Model{Round: 1, Digest: "model"}) != nil {
		t.Error("an empty history tells something")
	}
	for _, n := range []uint64{3, 9, 7, 8, 1, 7, 10} {
		plan, done := merged(n, 2)
		b.Add(plan, "layout", done)
	}
	unsigned, done := merged(11, 2)
	done.Signature = nil
	b.Add(unsigned, "layout", done)
	other, done := merged(12, 2)
	done.Attempt = 1
	b.Add(other, "layout", done)
	told := b.Told()
	if got := rounds(told); len(got) != 4 || got[0] != 10 || got[3] != 7 {
		t.Fatalf("it tells of %v", got)
	}
	p := told[0]
	if x := p.Plan.Participants[1]; x.Host != "" || x.Seq != 0 || x.SPIFFEID != "" || x.PeerID != "key" || x.Shards[0].Leaves != 3 {
		t.Errorf("participant %v", x)
	}
	if p.Done.Seals != nil || p.Done.ShardDigests != nil || p.Done.ShardsDigest != "shards" || p.Layout != "layout" || p.Plan.LedgerHead != "head" {
		t.Errorf("it tells %v", p)
	}
	if b.Of(round.Model{Round: 9, Digest: "model"}) == nil || b.Of(round.Model{Round: 9, Digest: "another"}) != nil || b.Of(round.Model{Round: 3, Digest: "model"}) != nil {
		t.Error("a round is not found, or one that is gone")
	}
	if plan := b.Of(round.Model{Round: 9, Digest: "model"}).Plan; plan.Participants[0].Host == "" {
		t.Error("the plan itself was changed")
	}
	for _, n := range []uint64{20, 21, 22} {
		plan, done := merged(n, 1000)
		b.Add(plan, "layout", done)
	}
	if got := rounds(b.Told()); len(got) != 2 || got[0] != 22 {
		t.Errorf("of rounds of a thousand it tells %v", got)
	}
}

func TestFiles(t *testing.T) {
	path := proof.Path(filepath.Join(t.TempDir(), "1-7-model.model"))
	if filepath.Base(path) != "1-7-model.proof" {
		t.Errorf("the proof lies in %s", path)
	}
	if err := proof.Write(path, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.Read(path, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	var b proof.History
	plan, done := merged(7, 3)
	b.Add(plan, "layout", done)
	if err := proof.Write(path, b.Of(round.Model{Round: 7, Digest: "model"})); err != nil {
		t.Fatal(err)
	}
	p, err := proof.Read(path, 1)
	if err != nil || !reflect.DeepEqual(p, b.Told()[0]) {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := proof.Read(path, 2); err == nil {
		t.Error("it proves a round of another run")
	}
	for name, raw := range map[string][]byte{"empty": {}, "garbled": []byte("\xff\xff\xff"), "long": make([]byte, 2<<20)} {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := proof.Read(path, 1); err == nil {
			t.Errorf("%s: it proves something", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzRead(f *testing.F) {
	var b proof.History
	plan, done := merged(7, 3)
	b.Add(plan, "layout", done)
	raw, err := onwire.ProofFile(b.Told()[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	path := filepath.Join(f.TempDir(), "x.proof")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := proof.Read(path, 1)
		if err != nil {
			return
		}
		var b proof.History
		b.Put(p)
		if len(b.Told()) != 1 {
			t.Errorf("what was read is not told: %v", p)
		}
	})
}
