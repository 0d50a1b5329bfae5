package proof_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session/proof"
)

func round(n uint64, participants int) (*swarmv1.Plan, *swarmv1.Done) {
	p := &swarmv1.Plan{Run: 1, Round: n, Attempt: 2, Method: "mean", LedgerHead: "head"}
	for range participants {
		p.Participants = append(p.Participants, &swarmv1.Participant{Session: "s", Node: "sl-0", PeerId: "key", Host: "10.0.0.1", FsPort: 1, Seq: 9, SpiffeId: "id", ShardLeaves: 3})
	}
	return p, &swarmv1.Done{Round: n, Attempt: 2, ModelDigest: "model", Signature: []byte{1}, Seals: [][]byte{{2}}, ShardDigests: []string{"shard"}, ShardsDigest: "shards"}
}

func rounds(told []*swarmv1.RoundProof) (out []uint64) {
	for _, p := range told {
		out = append(out, p.GetPlan().GetRound())
	}
	return out
}

// TestBookKeepsTheNewest: whatever the order in which rounds come, from the disk or as they are committed.
func TestBookKeepsTheNewest(t *testing.T) {
	var b proof.Book
	if b.Told() != nil || b.Of(1, "model") != nil {
		t.Error("an empty book tells something")
	}
	for _, n := range []uint64{3, 9, 7, 8, 1, 7, 10} {
		plan, done := round(n, 2)
		b.Add(plan, "layout", done)
	}
	unsigned, done := round(11, 2)
	done.Signature = nil
	b.Add(unsigned, "layout", done)
	other, done := round(12, 2)
	done.Attempt = 1
	b.Add(other, "layout", done)
	told := b.Told()
	if got := rounds(told); len(got) != 4 || got[0] != 10 || got[3] != 7 {
		t.Fatalf("it tells of %v", got)
	}
	p := told[0]
	if x := p.Plan.Participants[1]; x.Host != "" || x.Seq != 0 || x.SpiffeId != "" || x.PeerId != "key" || x.ShardLeaves != 3 {
		t.Errorf("participant %v", x)
	}
	if p.Done.Seals != nil || p.Done.ShardDigests != nil || p.Done.ShardsDigest != "shards" || p.LayoutDigest != "layout" || p.Plan.LedgerHead != "head" {
		t.Errorf("it tells %v", p)
	}
	if b.Of(9, "model") == nil || b.Of(9, "another") != nil || b.Of(3, "model") != nil {
		t.Error("a round is not found, or one that is gone")
	}
	if plan := b.Of(9, "model").Plan; plan.Participants[0].Host == "" {
		t.Error("the plan itself was changed")
	}
	for _, n := range []uint64{20, 21, 22} {
		plan, done := round(n, 1000)
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
	var b proof.Book
	plan, done := round(7, 3)
	b.Add(plan, "layout", done)
	if err := proof.Write(path, b.Of(7, "model")); err != nil {
		t.Fatal(err)
	}
	p, err := proof.Read(path, 1)
	if err != nil || !proto.Equal(p, b.Told()[0]) {
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
	var b proof.Book
	plan, done := round(7, 3)
	b.Add(plan, "layout", done)
	raw, err := proto.Marshal(b.Told()[0])
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
		var b proof.Book
		b.Put(p)
		if len(b.Told()) != 1 {
			t.Errorf("what was read is not told: %v", p)
		}
	})
}
