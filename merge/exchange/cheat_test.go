package exchange_test

import (
	"bytes"
	"encoding/binary"
	"io"
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
			body[0] ^= 1
			b.leaves = append(b.leaves, merge.Sum(body))
		case head[0] == 8 && b.seal != nil: // a seal
			shard := merge.Combine(b.leaves)
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
			if b := blamed(out[1].err); b != 3 && b != -2 {
				t.Errorf("%s: the owner: %v", text, out[1].err) // It says that it is honest, or was through before it heard.
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
					if err := verify(node(j), exchange.SealMessage(sealed(a, j, o.res.ShardDigests[j])), o.res.Seals[j]); err != nil {
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
