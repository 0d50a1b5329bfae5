package exchange_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// bent changes one bit of each leaf that is read and, if it is given how, the seal behind them so that it fits.
type bent struct {
	exchange.Stream
	seal   func(shard merge.Digest) []byte // nil: it stays as it is
	leaves []merge.Digest
	share  []byte            // the frame of distances; nil: the method needs none
	change func(sums []byte) // what the owner tells of distances; nil: that stays
	ready  []byte
}

func (b *bent) Read(p []byte) (int, error) {
	if len(b.ready) == 0 {
		head := make([]byte, 9)
		if n, err := io.ReadFull(b.Stream, head); err != nil {
			return copy(p, head[:n]), err
		}
		body := make([]byte, binary.LittleEndian.Uint32(head[5:]))
		if _, err := io.ReadFull(b.Stream, body); err != nil {
			return 0, err
		}
		switch {
		case head[0] == 3: // a leaf
			if b.change == nil {
				body[0] ^= 1
			}
			b.leaves = append(b.leaves, merge.Sum(body))
		case head[0] == 6: // distances
			if b.change != nil {
				b.change(body)
			}
			b.share = slices.Concat(head, body)
		case head[0] == 8 && b.seal != nil: // a seal
			shard := merge.Combine(b.leaves)
			if b.share != nil {
				told := merge.Sum(b.share)
				shard = merge.Sum(slices.Concat([]byte("swarmd merge shard with distances 1\x00"), shard[:], told[:]))
			}
			body = append(shard[:], b.seal(shard)...)
		}
		b.ready = append(head, body...)
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// cheating runs an attempt of four in which one owner tells one receiver other bytes than the others.
func cheating(t *testing.T, text string, seals bool, judge func(a exchange.Attempt, s *swarm, tr *training, out []outcome)) {
	const cheat, cheated = 1, 3
	l, local, merged := floats(t, 12, 4)
	synctest.Test(t, func(t *testing.T) {
		tr := &training{t: t, method: canonical(t, text), layout: l, local: local, merged: merged}
		for i := range merged {
			merged[i] = tr.slot()
			tr.base, tr.spools = append(tr.base, nil), append(tr.spools, new(spools))
		}
		s := tr.join(newSwarm(t, 4, exchange.Config{}))
		a := tr.plan(attempt(t, l, 1, 1, 1, 1, 1))
		s.wrap = func(from, to int, stream exchange.Stream) exchange.Stream {
			if from != cheated || to != cheat {
				return stream
			}
			b := &bent{Stream: stream}
			if seals {
				b.seal = func(shard merge.Digest) []byte {
					return sign(node(cheat), exchange.SealMessage(sealed(a, cheat, shard)))
				}
			}
			return b
		}
		judge(a, s, tr, s.runAll(t.Context(), a, local, merged))
	})
}

// sealed is what an owner of the attempt signs of its shard.
func sealed(a exchange.Attempt, owner int, shard merge.Digest) exchange.Sealed {
	return exchange.Sealed{
		Contract: a.Contract, Run: a.Run, Round: a.Round, Number: a.Number, Plan: a.Planned().Digest(), Owner: owner, Shard: shard,
	}
}

// TestAnOwnerThatSealsOtherBytesIsBlamed: the receiver finds it out itself, keeps nothing of what came, and goes on with it once it is
// honest.
func TestAnOwnerThatSealsOtherBytesIsBlamed(t *testing.T) {
	for _, text := range []string{"mean", "geomedian", "fedadam"} {
		cheating(t, text, false, func(a exchange.Attempt, s *swarm, tr *training, out []outcome) {
			if blamed(out[3].err) != 1 || heardFrom(out[3].err) != -1 {
				t.Errorf("%s: got %v, want that it blames 1 for itself", text, out[3].err)
			}
			s.wrap = nil
			a.Number = 2
			tr.verify(a, s.runAll(tr.t.(*testing.T).Context(), a, tr.local, tr.merged))
		})
	}
}

// TestAnOwnerThatSealsTwoThingsIsProvenToLie: each receiver holds what fits, and both hold the owner's own word on it.
func TestAnOwnerThatSealsTwoThingsIsProvenToLie(t *testing.T) {
	const cheat, cheated = 1, 3
	for _, text := range []string{"mean", "geomedian"} {
		cheating(t, text, true, func(a exchange.Attempt, _ *swarm, _ *training, out []outcome) {
			mustAll(t, out)
			for i, o := range out {
				for j := range out {
					if same := o.res.ShardDigests[j] == out[j].res.ShardDigests[j]; same == (i == cheated && j == cheat) {
						t.Errorf("%s: digest of shard %d at %d: the owner's own is equal: %v", text, j, i, same)
					}
					shard, err := merge.ParseDigest(o.res.ShardDigests[j])
					if err == nil {
						err = verify(node(j), exchange.SealMessage(sealed(a, j, shard)), o.res.Seals[j])
					}
					if err != nil {
						t.Errorf("%s: seal %d at %d: %v", text, j, i, err)
					}
				}
			}
			if bytes.Equal(out[cheated].res.Seals[cheat], out[0].res.Seals[cheat]) {
				t.Errorf("%s: the owner has not signed two digests", text)
			}
		})
	}
}

// lyingOwner runs an attempt of five by a method that needs distances. Contributor 4's model is far from the others', and as an owner
// it changes what it tells of distances to those whom lies names.
func lyingOwner(t *testing.T, text string, change func(sums []byte), lies func(to int) bool) []outcome {
	const liar, n = 4, 5
	l, local, merged := floats(t, 20, n)
	for i, s := range local {
		fill(s, 1+float32(i)/1000)
	}
	fill(local[liar], 1e6)
	var out []outcome
	synctest.Test(t, func(t *testing.T) {
		tr := &training{t: t, method: canonical(t, text), layout: l, local: local, merged: merged}
		for i := range merged {
			merged[i] = tr.slot()
			tr.base, tr.spools = append(tr.base, nil), append(tr.spools, new(spools))
		}
		s := tr.join(newSwarm(t, n, exchange.Config{}))
		a := tr.plan(attempt(t, l, 1, 1, 1, 1, 1, 1))
		s.wrap = func(from, to int, stream exchange.Stream) exchange.Stream {
			if to != liar || !lies(from) {
				return stream
			}
			return &bent{Stream: stream, change: change, seal: func(shard merge.Digest) []byte {
				return sign(node(liar), exchange.SealMessage(sealed(a, liar, shard)))
			}}
		}
		out = s.runAll(t.Context(), a, local, merged)
	})
	return out
}

func fill(s *slot, v float32) {
	for k := 0; k+4 <= len(s.b); k += 4 {
		binary.LittleEndian.PutUint32(s.b[k:], math.Float32bits(v))
	}
}

// TestAnOwnersDistancesAreHeldToNorms: an owner that says its own model is near to all, and that all others are far from each
// other, was believed, and its model of 1e6 was everybody's, by the methods that are to leave such a one out.
func TestAnOwnersDistancesAreHeldToNorms(t *testing.T) {
	const liar, contributors = 4, 5
	claim := func(own, others float64) func(sums []byte) {
		return func(sums []byte) {
			pair := 0
			for i := range contributors {
				for j := i + 1; j < contributors; j++ {
					v := others
					if j == liar {
						v = own
					}
					binary.LittleEndian.PutUint64(sums[8*pair:], math.Float64bits(v))
					pair++
				}
			}
		}
	}
	for k, text := range []string{"krum(f=1)", "multikrum(f=1,m=1)", "geomedian"} {
		if !row(k) { // krum
			continue
		}
		for name, change := range map[string]func([]byte){
			"near and far": claim(0, 1e200), "itself near": claim(0, 1), "the others far": claim(1e17, 1e200),
		} {
			for i, o := range lyingOwner(t, text, change, func(to int) bool { return to != liar }) {
				if i != liar && (blamed(o.err) != liar || heardFrom(o.err) != -1) {
					t.Errorf("%s, %s: participant %d: got %v, want that it blames the owner for itself", text, name, i, o.err)
				}
			}
		}
	}
}

// TestAnOwnerThatTellsTwoDistancesIsProvenToLie: what fits the norms and is told to one alone stands under another seal.
func TestAnOwnerThatTellsTwoDistancesIsProvenToLie(t *testing.T) {
	const liar, cheated = 4, 2
	least := func(sums []byte) {
		v := math.Float64frombits(binary.LittleEndian.Uint64(sums))
		binary.LittleEndian.PutUint64(sums, math.Float64bits(v*1.5))
	}
	out := lyingOwner(t, "geomedian", least, func(to int) bool { return to == cheated })
	mustAll(t, out)
	if out[cheated].res.ShardDigests[liar] == out[0].res.ShardDigests[liar] || bytes.Equal(out[cheated].res.Seals[liar], out[0].res.Seals[liar]) {
		t.Error("the owner has not signed two things")
	}
}

// TestSealMessages holds that a seal of one thing is none of another.
func TestSealMessages(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(s *exchange.Sealed){
		"none":     func(*exchange.Sealed) {},
		"contract": func(s *exchange.Sealed) { s.Contract = "d" },
		"run":      func(s *exchange.Sealed) { s.Run++ },
		"round":    func(s *exchange.Sealed) { s.Round++ },
		"attempt":  func(s *exchange.Sealed) { s.Number++ },
		"plan":     func(s *exchange.Sealed) { s.Plan[0]++ },
		"owner":    func(s *exchange.Sealed) { s.Owner++ },
		"shard":    func(s *exchange.Sealed) { s.Shard[0]++ },
	} {
		s := exchange.Sealed{Contract: "c", Run: 1, Round: 1, Number: 1}
		change(&s)
		m := string(exchange.SealMessage(s))
		if as := seen[m]; as != "" {
			t.Errorf("%s gives the message of %s", name, as)
		}
		seen[m] = name
	}
}
