package exchange

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// FuzzFrames lets a peer say anything to an owner and to a participant of a running attempt: neither panics, allocates by
// what a header claims, or waits longer than the timeouts.
func FuzzFrames(f *testing.F) {
	mean, whole := newDuel(f, "mean", 0), newDuel(f, "geomedian", 1)
	hi := mean.hello().AppendFrame(nil)
	huge := wire.Header{Kind: wire.KindLeaf, Arg: 0, Length: math.MaxUint32}.Append(nil)
	f.Add(uint8(0), join(hi, have(), mean.leaf(0)))
	f.Add(uint8(0), join(hi, have(), huge))
	f.Add(uint8(0), have())
	f.Add(uint8(2), join(have(), mean.leaf(0)))
	f.Add(uint8(1), join(hi, have(), wire.Fail{Blamed: 0, Reason: "x"}.Append(nil)))
	f.Add(uint8(3), join(have(), unsigned(2, 1), whole.leaf(0)))
	f.Add(uint8(3), join(have(), wire.Header{Kind: wire.KindSums, Arg: math.MaxUint32, Length: math.MaxUint32}.Append(nil)))
	f.Add(uint8(7), join(have(), wire.Header{Kind: wire.KindWait}.Append(nil), wire.Fail{Blamed: -1, Code: wire.CodeNotReady}.Append(nil)))
	f.Add(uint8(2), wire.Fail{Blamed: -1, Code: wire.CodeNotReady}.Append(nil))
	short := newShortDuel(f, "float16", 0)
	f.Add(uint8(32+16), short.diffs(0x7bff))
	f.Add(uint8(32+2), join(have(), short.diff(0, 1), wire.Header{Kind: wire.KindDiff, Arg: 1, Length: math.MaxUint32}.Append(nil)))
	words := wire.Header{Kind: wire.KindInputs, Arg: 1, Length: 2 * wire.InputLength}.Append(nil)
	f.Add(uint8(128+16), join(mean.leaves(), words, make([]byte, 2*wire.InputLength)))
	f.Add(uint8(128+16), join(mean.leaves(), wire.Header{Kind: wire.KindWait}.Append(nil), words))
	f.Add(uint8(128+2), join(have(), mean.leaf(0), words))
	f.Fuzz(func(t *testing.T, how uint8, said []byte) {
		method := []string{"mean", "geomedian", "normclip", "fedadam"}[how>>2&3]
		owner := int(how >> 1 & 1) // 0: this node, and the peer contributes
		if how&1 == 1 {
			method = "geomedian"
		}
		synctest.Test(t, func(t *testing.T) {
			d := newDuel(t, method, owner)
			if how&32 != 0 {
				method = "mean"
				d = newShortDuel(t, merge.Wires()[how>>6&1], owner)
			}
			if method == "normclip" {
				d.a.Participants[0].Factor, d.a.Participants[1].Factor = 1, 0.5
			}
			if how&128 != 0 { // The peer's only shard is the last leaf, or this node's is.
				rest := merge.Shard{Leaves: hostileLeaves - 1}
				d.a.Participants[owner].Shard, d.a.Participants[1-owner].Shard = rest, merge.Shard{First: rest.End(), Leaves: 1}
				d.a.Participants[0].Unit, d.a.Participants[1].Unit, d.a.Witnesses = "a", "b", 2
			}
			if how&16 != 0 { // Get past the plan's digest.
				said = join(d.hello().AppendFrame(nil), have(), said)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			var err error
			if owner == 0 {
				err, _ = d.contribute(t, said)
			} else {
				err = d.visitPeer(t, said)
			}
			runtime.ReadMemStats(&after)
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v (%v)", took, err)
			}
			// A length that is believed would be gigabytes. Buffers of leaves are made anew where the race detector has pools drop them, which
			// it does at random, and what the process allocates meanwhile is in it too.
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(len(said))+(128+hostileLeaves)*merge.MaxLeafSize {
				t.Errorf("%d bytes made it allocate %d", len(said), used)
			}
			if err == nil && len(said) < int(d.a.Layout.Bytes()/2) {
				t.Error("an attempt succeeded without its leaves")
			}
		})
	})
}

// prepared is an attempt that nobody runs.
func prepared(t *testing.T, hub *Hub, d *duel) *run {
	t.Helper()
	r, err := newRun(hub, d.a, d.slots, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.lifecycle = newLifecycle(t.Context(), r.plan, hub.cfg.Grace)
	t.Cleanup(func() { r.lifecycle.cancel(nil) })
	r.prepare(newProgress(r.plan, ""))
	return r
}

// FuzzTake gives an owner what must be one leaf of a contributor, without an attempt around it: a thousand times as many
// executions as FuzzFrames. It takes exactly that leaf, and blames nobody but who said it, or says who did.
func FuzzTake(f *testing.F) {
	const last = hostileLeaves - 1 // It is short.
	plain, short := newDuel(f, "mean", 0), newShortDuel(f, "float16", 0)
	f.Add(uint8(0), plain.leaf(last))
	f.Add(uint8(1), short.diff(last, 0x3c00))
	f.Add(uint8(1), plain.leaf(last))
	f.Add(uint8(2), short.diff(last, 0x7c00))
	f.Add(uint8(0), plain.leaf(last)[:40])
	f.Add(uint8(0), wire.Header{Kind: wire.KindLeaf, Arg: last, Length: math.MaxUint32}.Append(nil))
	for code := range wire.CodeHeard + 2 {
		f.Add(uint8(0), wire.Fail{Blamed: int(code) % 3, Code: code, Reason: "x\ny\xff"}.Append(nil))
	}
	duels := []*duel{plain, short, newShortDuel(f, "bfloat16", 0)}
	hub := NewHub(Config{Grace: time.Nanosecond})
	f.Cleanup(hub.Close)
	f.Fuzz(func(t *testing.T, how uint8, said []byte) {
		d := duels[int(how)%len(duels)]
		r := prepared(t, hub, d)
		in, codec := bytes.NewReader(said), r.servers[1].receive.codec
		buf := make([]byte, d.a.Layout.LeafLen(last))
		err := r.servers[1].receive.leaf(wire.NewConn(heard{in}, time.Second), last, buf)
		if want := codec.Header(last); err == nil {
			if !bytes.HasPrefix(said, want.Append(nil)) || len(said)-in.Len() != wire.HeaderSize+int(want.Length) {
				t.Errorf("%d of %d bytes were taken for a leaf", len(said)-in.Len(), len(said))
			}
			if !codec.Shortens() && !bytes.Equal(buf, said[wire.HeaderSize:wire.HeaderSize+len(buf)]) {
				t.Error("the leaf is not what was said")
			}
		}
		if failure := r.lifecycle.failed(); failure != nil && failure.Blamed != 1 && failure.HeardFrom != 1 {
			t.Errorf("blamed %d, heard from %d: %s", failure.Blamed, failure.HeardFrom, failure.Reason)
		}
	})
}

// FuzzSeal gives a participant what must be an owner's seal, without an attempt around it: it takes none but one on what the owner gave, and
// no signature for the owner's but its own, keeps no leaf otherwise, and blames nobody but who said it, or says who did.
func FuzzSeal(f *testing.F) {
	d := newDuel(f, "mean", 1)
	good := d.seal(func(i int) []byte { return d.model[:d.a.Layout.LeafLen(i)] })
	f.Add(good)
	f.Add(join(wire.Header{Kind: wire.KindWait}.Append(nil), good))
	f.Add(d.sealOf(merge.Sum(nil)))
	f.Add(good[:len(good)-1])
	f.Add(wire.Header{Kind: wire.KindSeal, Arg: 1, Length: math.MaxUint32}.Append(nil))
	f.Add(d.leaf(0))
	f.Add(wire.Fail{Blamed: 1, Code: wire.CodeContents, Reason: "x\ny\xff"}.Append(nil))
	hub := NewHub(keyed(Config{Grace: time.Nanosecond}))
	f.Cleanup(hub.Close)
	f.Fuzz(func(t *testing.T, said []byte) {
		r := prepared(t, hub, d)
		for i := range hostileLeaves {
			r.progress.merged.Add(i, merge.Sum(d.model[:d.a.Layout.LeafLen(i)]))
		}
		in := bytes.NewReader(said)
		err := r.clients[0].fetch.seal(&clientStream{Conn: wire.NewConn(heard{in}, time.Second), j: 1})
		taken := said[:len(said)-in.Len()]
		if (err == nil) != r.sealing.has(1) {
			t.Errorf("%d bytes were taken for a seal: %v", len(taken), err)
		}
		// Whether the owner has signed it is found out when that is asked for.
		if err == nil && (r.sealing.verify(1) == nil) != bytes.HasSuffix(taken, good) {
			t.Errorf("%d bytes were taken for the owner's word, or its word was not", len(taken))
		}
		if held, _ := r.progress.merged.HasShard(r.plan.owned[1]); !held && !errors.Is(err, errSeal) || held && errors.Is(err, errSeal) {
			t.Errorf("leaves are kept: %v, after %v", held, err)
		}
		if failure := r.lifecycle.failed(); failure != nil && failure.Blamed != 1 && failure.HeardFrom != 1 {
			t.Errorf("blamed %d, heard from %d: %s", failure.Blamed, failure.HeardFrom, failure.Reason)
		}
	})
}

// FuzzInputs gives a merger what must be a contributor's word on its leaves in two shards, without an attempt around it: it takes none
// but a signed one on what came, and blames nobody but who said it, or says who did.
func FuzzInputs(f *testing.F) {
	d := newDuel(f, "mean", 0)
	half := d.a.Layout.Leaves() / 2
	d.a.Participants[0].Shard = merge.Shard{Leaves: half}
	d.a.Participants[1].Shard = merge.Shard{First: half, Leaves: d.a.Layout.Leaves() - half}
	d.a.Participants[0].Unit, d.a.Participants[1].Unit, d.a.Witnesses = "a", "b", 2
	came := make([]merge.Digest, hostileLeaves)
	for i := range came {
		came[i] = merge.Sum([]byte{byte(i)})
	}
	word := func(first, second []merge.Digest) []byte {
		b := wire.InputsHeader(1, 2).Append(nil)
		for owner, digests := range [][]merge.Digest{first, second} {
			digest := merge.Combine(digests)
			sig, _ := keyed(Config{}).Sign(InputMessage(d.a.planDigest(), 1, owner, digest))
			b = join(b, digest[:], sig)
		}
		return b
	}
	good := word(came[:half], came[half:])
	f.Add(good)
	f.Add(join(wire.Header{Kind: wire.KindWait}.Append(nil), good))
	f.Add(word(came[half:], came[:half]))
	f.Add(word(came[:half], came[:half]))
	f.Add(good[:len(good)-1])
	f.Add(append(good[:len(good)-1:len(good)-1], good[len(good)-1]^1))
	f.Add(wire.Header{Kind: wire.KindInputs, Arg: 1, Length: math.MaxUint32}.Append(nil))
	f.Add(d.leaf(0))
	f.Add(wire.Fail{Blamed: 0, Code: wire.CodeContents, Reason: "x"}.Append(nil))
	hub := NewHub(keyed(Config{Grace: time.Nanosecond}))
	f.Cleanup(hub.Close)
	f.Fuzz(func(t *testing.T, said []byte) {
		r := prepared(t, hub, d)
		for i := range came {
			r.progress.record.Came(1, i, []byte{byte(i)})
		}
		in := bytes.NewReader(said)
		err := r.servers[1].receive.inputs(wire.NewConn(heard{in}, time.Second))
		taken := said[:len(said)-in.Len()]
		if (err == nil) != (r.progress.record.Input(0, 1).Signature != nil && r.progress.record.Input(1, 1).Signature != nil) || err == nil && !bytes.HasSuffix(taken, good) {
			t.Errorf("%d bytes were taken for a word: %v", len(taken), err)
		}
		if failure := r.lifecycle.failed(); failure != nil && failure.Blamed != 1 && failure.HeardFrom != 1 {
			t.Errorf("blamed %d, heard from %d: %s", failure.Blamed, failure.HeardFrom, failure.Reason)
		}
	})
}
