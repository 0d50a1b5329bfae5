package nodetest

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/swarmd/swarmd/merge/exchange"
)

// The header of a frame of merge/exchange: kind, argument (of a leaf its index), length of the payload.
const (
	frameHeader = 9
	frameHello  = 1
	frameLeaf   = 3
	helloRound  = 1 + 8 // where a Hello's round stands
)

// Carried names one leaf that a merge stream brought from one node to another: what From contributes to a leaf that To
// owns, or the merged leaf that From owns.
type Carried struct {
	From, To string
	Leaf     uint32
}

// taps watch all merge streams of a swarm and spoil those of liars.
type taps struct {
	mu      sync.Mutex                 // guards what follows
	carried map[uint64]map[Carried]int // by round
	bytes   map[uint64]uint64
	mishear map[pair]bool // {receiver, owner}: the receiver takes other bytes than it got
	cheat   map[pair]bool // {owner, receiver}: the owner sends other bytes than it merged
}

func newTaps() *taps {
	return &taps{carried: map[uint64]map[Carried]int{}, bytes: map[uint64]uint64{}, mishear: map[pair]bool{}, cheat: map[pair]bool{}}
}

// Carried returns how often each leaf of a contract's round has come whole through merge streams, and all bytes that came
// through the streams of the round, framing included. Leaves count for the round whose Hello came last on their stream.
func (s *Swarm) Carried(round uint64) (map[Carried]int, uint64) {
	s.taps.mu.Lock()
	defer s.taps.mu.Unlock()
	return maps.Clone(s.taps.carried[round]), s.taps.bytes[round]
}

// LieAbout has an SL report digests of these owners' shards, and of the model, that are not those of what it was sent. It
// believes them itself, so its signature is right.
func (s *Swarm) LieAbout(name string, owners ...string) {
	s.taps.set(s.taps.mishear, name, owners)
}

// Cheat has an SL send these receivers other merged bytes than it holds itself.
func (s *Swarm) Cheat(name string, receivers ...string) {
	s.taps.set(s.taps.cheat, name, receivers)
}

// Honest ends an SL's LieAbout, Cheat and Accuse.
func (s *Swarm) Honest(name string) {
	n := s.sl(name)
	n.mu.Lock()
	n.accuses = false
	n.mu.Unlock()
	s.taps.mu.Lock()
	defer s.taps.mu.Unlock()
	for _, lies := range []map[pair]bool{s.taps.mishear, s.taps.cheat} {
		maps.DeleteFunc(lies, func(p pair, _ bool) bool { return p[0] == name })
	}
}

func (t *taps) set(lies map[pair]bool, name string, others []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range others {
		lies[pair{name, other}] = true
	}
}

func (t *taps) lies(lies map[pair]bool, name, other string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lies[pair{name, other}]
}

// tapped is one end of a merge stream.
type tapped struct {
	*conn
	taps    *taps
	owner   bool // this end owns the shard that the stream is about
	in, out frames
}

var _ exchange.Stream = (*tapped)(nil)

// Read counts what arrives, and spoils it for a liar.
func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	me, other := t.local().name, t.remote().name
	spoil := !t.owner && t.taps.lies(t.taps.mishear, me, other)
	whole := t.in.pass(p[:n], spoil)
	hello := &t.in.round
	if !t.owner {
		hello = &t.out.round // this end says it
	}
	round := hello.Load()
	t.taps.mu.Lock()
	defer t.taps.mu.Unlock()
	t.taps.bytes[round] += uint64(n) //nolint:gosec // not negative
	if t.taps.carried[round] == nil {
		t.taps.carried[round] = map[Carried]int{}
	}
	for _, leaf := range whole {
		t.taps.carried[round][Carried{From: other, To: me, Leaf: leaf}]++
	}
	return n, err
}

// Write spoils what a cheating owner sends.
func (t *tapped) Write(p []byte) (int, error) {
	spoil := t.owner && t.taps.lies(t.taps.cheat, t.local().name, t.remote().name)
	other := append([]byte(nil), p...)
	head, n, left, hello := t.out.head, t.out.n, t.out.left, t.out.hello
	t.out.pass(other, spoil)
	done, err := t.conn.Write(other)
	if done < len(p) {
		t.out.head, t.out.n, t.out.left, t.out.hello = head, n, left, hello
		t.out.pass(other[:done], false)
	}
	return done, err
}

// frames follows the frames of one direction of a stream.
type frames struct {
	head  [frameHeader]byte
	n     int           // bytes of the header that are there
	left  uint32        // bytes of the payload still to come
	hello []byte        // begin of the last Hello
	round atomic.Uint64 // that it names
}

// pass follows bytes and returns the leaves that are whole with them. It changes each leaf a little if it shall spoil them.
func (f *frames) pass(b []byte, spoil bool) (whole []uint32) {
	for len(b) > 0 {
		if f.n < frameHeader {
			k := copy(f.head[f.n:], b)
			f.n, b = f.n+k, b[k:]
			if f.n == frameHeader {
				f.left, f.hello = binary.LittleEndian.Uint32(f.head[5:]), nil
			}
		} else {
			if spoil && f.head[0] == frameLeaf && f.left == binary.LittleEndian.Uint32(f.head[5:]) {
				b[0] ^= 1 // the last bit of a float32's mantissa
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
	if f.head[0] != frameHello || len(f.hello) >= helloRound+8 {
		return
	}
	f.hello = append(f.hello[:len(f.hello):len(f.hello)], b...)
	if len(f.hello) >= helloRound+8 {
		f.round.Store(binary.LittleEndian.Uint64(f.hello[helloRound:]))
	}
}
