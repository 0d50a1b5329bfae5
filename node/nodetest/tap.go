package nodetest

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// The header of a frame of merge/exchange: kind, argument (of a leaf its index), length of the payload.
const (
	frameHeader = 9
	frameHello  = 1
	frameLeaf   = 3
	frameSeal   = 8
	helloRound  = 1 + 8 // where a Hello's round stands
	helloPlan   = helloRound + 8 + 8
	helloName   = helloPlan + 32
)

// tapped is one end of a merge stream.
type tapped struct {
	*conn
	traffic *Traffic
	liars   *Liars
	owner   bool // this end owns the shard that the stream is about
	in, out frames
	key     crypto.PrivKey          // of the node at this end
	body    []byte                  // of the leaf that is being spoilt
	sent    map[uint64]merge.Digest // of spoilt leaves of the own contribution
}

var _ exchange.Stream = (*tapped)(nil)

// Read counts what arrives.
func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	me, other := t.local().name, t.remote().name
	whole := t.in.pass(p[:n], nil)
	var sent contribution
	if t.owner && len(whole) > 0 {
		sent = t.traffic.offered(other)
	}
	hello := &t.in.round
	if !t.owner {
		hello = &t.out.round // this end says it
	}
	round := hello.Load()
	t.traffic.mu.Lock()
	defer t.traffic.mu.Unlock()
	t.traffic.bytes[round] += uint64(n) //nolint:gosec // not negative
	if t.traffic.carried[round] == nil {
		t.traffic.carried[round] = map[Carried]int{}
	}
	for _, leaf := range whole {
		if t.owner {
			t.traffic.comes(sent, leaf, me)
		}
		t.traffic.carried[round][Carried{From: other, To: me, Leaf: leaf}]++
	}
	return n, err
}

// Write spoils what a cheating owner sends.
func (t *tapped) Write(p []byte) (int, error) {
	var spoil func(f *frames, b []byte)
	if t.owner && (t.liars.lies(t.liars.cheat, t.local().name, t.remote().name) || t.liars.mergesWrongly(t.local().name)) {
		spoil = t.spoil
	}
	if !t.owner && t.liars.lies(t.liars.twofold, t.local().name, t.remote().name) {
		spoil = t.twofold
	}
	other := append([]byte(nil), p...)
	head, n, left, hello := t.out.head, t.out.n, t.out.left, t.out.hello
	t.out.pass(other, spoil)
	done, err := t.conn.Write(other)
	if done < len(p) {
		t.out.head, t.out.n, t.out.left, t.out.hello = head, n, left, hello
		t.out.pass(other[:done], nil)
	}
	return done, err
}

// spoil changes each leaf a little, and the seal so that it fits. b begins within the payload of the frame that f follows.
func (t *tapped) spoil(f *frames, b []byte) {
	size, arg := binary.LittleEndian.Uint32(f.head[5:]), binary.LittleEndian.Uint32(f.head[1:])
	said := t.in.said.Load()
	if said == nil || len(*said) <= helloName {
		return
	}
	key := spoilt{pair{t.local().name, t.remote().name}, merge.Digest((*said)[helloPlan:])}
	t.liars.mu.Lock()
	defer t.liars.mu.Unlock()
	switch {
	case f.head[0] == frameLeaf:
		if f.left == size {
			b[0] ^= 1 // the last bit of a float32's mantissa
			t.body = t.body[:0]
		}
		if t.body = append(t.body, b[:min(len(b), int(f.left))]...); len(t.body) == int(size) {
			if t.liars.spoilt[key] == nil {
				t.liars.spoilt[key] = map[uint32]merge.Digest{}
			}
			t.liars.spoilt[key][arg] = merge.Sum(t.body)
		}
	case f.head[0] == frameSeal && f.left == size && len(b) >= int(size):
		var leaves []merge.Digest
		for _, leaf := range slices.Sorted(maps.Keys(t.liars.spoilt[key])) {
			leaves = append(leaves, t.liars.spoilt[key][leaf])
		}
		at := func(i int) uint64 { return binary.LittleEndian.Uint64((*said)[1+8*i:]) }
		s := exchange.Sealed{
			Contract: string((*said)[helloName:]), Run: at(0), Round: at(1), Number: at(2), Plan: key.plan, Owner: int(arg), Shard: merge.Combine(leaves),
		}
		sig, _ := t.key.Sign(exchange.SealMessage(s)) // an Ed25519 key never fails
		copy(b, append(s.Shard[:], sig...))
		t.liars.sealed[t.local().name] = wronglyDone{s.Shard, sig}
	}
}

// frames follows the frames of one direction of a stream.
type frames struct {
	head  [frameHeader]byte
	n     int                    // bytes of the header that are there
	left  uint32                 // bytes of the payload still to come
	hello []byte                 // begin of the last Hello
	round atomic.Uint64          // that it names
	said  atomic.Pointer[[]byte] // all of it
}

// pass follows bytes and returns the leaves that are whole with them. Spoil, which may be nil, may change payloads.
func (f *frames) pass(b []byte, spoil func(f *frames, b []byte)) (whole []uint32) {
	for len(b) > 0 {
		if f.n < frameHeader {
			k := copy(f.head[f.n:], b)
			f.n, b = f.n+k, b[k:]
			if f.n == frameHeader {
				f.left, f.hello = binary.LittleEndian.Uint32(f.head[5:]), nil
			}
		} else {
			if spoil != nil {
				spoil(f, b)
			}
			k := min(len(b), int(f.left))
			f.greet(b[:k])
			f.left, b = f.left-uint32(k), b[k:] //nolint:gosec // k <= left
		}
		if f.n == frameHeader && f.left == 0 {
			if f.head[0] == frameLeaf {
				whole = append(whole, binary.LittleEndian.Uint32(f.head[1:]))
			}
			f.n = 0
		}
	}
	return whole
}

// greet reads which round a Hello is about: its version, run and round come first.
func (f *frames) greet(b []byte) {
	if f.head[0] != frameHello {
		return
	}
	f.hello = append(f.hello[:len(f.hello):len(f.hello)], b...)
	if f.left == uint32(len(b)) { //nolint:gosec // a payload's part
		said := f.hello
		f.said.Store(&said)
	}
	if len(f.hello) >= helloRound+8 {
		f.round.Store(binary.LittleEndian.Uint64(f.hello[helloRound:]))
	}
}
