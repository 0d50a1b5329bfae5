package nodetest

import (
	"encoding/binary"
	"slices"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

const frameInputs = 10

// twofold is spoil for what a contributor sends: it changes each leaf a little, and what it signs of them so that it fits.
func (t *tapped) twofold(f *frames, b []byte) {
	size, arg := binary.LittleEndian.Uint32(f.head[5:]), binary.LittleEndian.Uint32(f.head[1:])
	switch {
	case f.head[0] == frameLeaf:
		if f.left == size {
			b[0] ^= 1
			t.body = t.body[:0]
		}
		if t.body = append(t.body, b[:min(len(b), int(f.left))]...); len(t.body) == int(size) {
			if t.sent == nil {
				t.sent = map[uint64]merge.Digest{}
			}
			t.sent[uint64(arg)] = merge.Sum(t.body)
		}
	case f.head[0] == frameInputs && f.left == size && len(b) >= int(size):
		t.liars.mu.Lock()
		job := t.liars.jobs[t.local().name]
		t.liars.mu.Unlock()
		if said := t.out.said.Load(); said != nil && len(*said) > helloName && job != nil {
			t.signInputs(job, merge.Digest((*said)[helloPlan:]), int(arg), b[:size])
		}
	}
}

// signInputs writes what fits the leaves that were sent: for each part that the receiver merges their digest, and a signature.
func (t *tapped) signInputs(p *round.Plan, plan merge.Digest, contributor int, out []byte) {
	units, owns := make([]string, len(p.Participants)), make([]bool, len(p.Participants))
	for i, m := range p.Participants {
		units[i], owns[i] = m.Unit(), len(m.Shards) > 0
	}
	receiver := slices.IndexFunc(p.Participants, func(m *round.Participant) bool { return m.Node == t.remote().name })
	for owner, mergers := range merge.Mergers(units, owns, int(p.Witnesses)) {
		if !slices.Contains(mergers, receiver) {
			continue
		}
		var leaves []merge.Digest
		for _, r := range p.Participants[owner].Shards {
			for leaf := r.First; leaf < r.First+r.Leaves; leaf++ {
				leaves = append(leaves, t.sent[leaf])
			}
		}
		digest := merge.Combine(leaves)
		sig, _ := t.key.Sign(exchange.InputMessage(plan, contributor, owner, digest)) // an Ed25519 key never fails
		out = out[copy(out, append(digest[:], sig...)):]
	}
}
