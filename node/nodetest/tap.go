package nodetest

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
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
	owners  map[contribution]map[uint32][]string // by leaf: to whom it came whole
	offered func(name string) contribution       // what an SL sends now
	mishear map[pair]bool                        // {receiver, owner}: the receiver reports another digest than that of what it got
	cheat   map[pair]bool                        // {owner, receiver}: the owner sends other bytes than it merged, and seals them
	spoilt  map[spoilt]map[uint32]merge.Digest
	wrong   map[string]bool        // who sends everybody what it has not merged
	sealed  map[string]wronglyDone // what such a one has sealed last
	witness map[pair]bool          // {witness, owner}: it reports that it merged the owner's part otherwise
	twofold map[pair]bool          // {contributor, merger}: the merger is sent something else than others
	jobs    map[string]*round.Plan // that an SL carries out
}

// spoilt names what a cheating owner sends to one receiver under a plan.
type spoilt struct {
	pair
	plan merge.Digest
}

// contribution is what one SL hands in with one Sync, or at its close.
type contribution struct {
	run *Run
	seq uint64 // 0: at the close
}

func newTaps(offered func(name string) contribution) *taps {
	return &taps{
		carried: map[uint64]map[Carried]int{}, bytes: map[uint64]uint64{}, mishear: map[pair]bool{}, cheat: map[pair]bool{},
		wrong: map[string]bool{}, sealed: map[string]wronglyDone{}, witness: map[pair]bool{}, twofold: map[pair]bool{},
		jobs:   map[string]*round.Plan{},
		spoilt: map[spoilt]map[uint32]merge.Digest{}, offered: offered, owners: map[contribution]map[uint32][]string{},
	}
}

// Carried returns how often each leaf of a contract's round has come whole through merge streams, and all bytes that came
// through the streams of the round, framing included. Leaves count for the round whose Hello came last on their stream.
func (s *Swarm) Carried(round uint64) (map[Carried]int, uint64) {
	s.taps.mu.Lock()
	defer s.taps.mu.Unlock()
	return maps.Clone(s.taps.carried[round]), s.taps.bytes[round]
}

// LieAbout has an SL report digests of these owners' shards, and of the model, that are not those of what it was sent, and sign
// that.
func (s *Swarm) LieAbout(name string, owners ...string) {
	s.taps.set(s.taps.mishear, name, owners)
}

// Cheat has an SL send these receivers other merged bytes than it holds itself, under a seal that fits them.
func (s *Swarm) Cheat(name string, receivers ...string) {
	s.taps.set(s.taps.cheat, name, receivers)
}

// MergeWrongly has an SL send everybody the same other bytes than its part merges to, seal and report them.
func (s *Swarm) MergeWrongly(name string) {
	s.taps.mu.Lock()
	defer s.taps.mu.Unlock()
	s.taps.wrong[name] = true
}

// LieAsWitness has an SL report that these owners' parts merge to something else than it found.
func (s *Swarm) LieAsWitness(name string, owners ...string) {
	s.taps.set(s.taps.witness, name, owners)
}

// Honest ends all lies of an SL.
func (s *Swarm) Honest(name string) {
	n := s.sl(name)
	n.mu.Lock()
	n.accuses = false
	n.mu.Unlock()
	s.taps.mu.Lock()
	defer s.taps.mu.Unlock()
	delete(s.taps.wrong, name)
	for _, lies := range []map[pair]bool{s.taps.mishear, s.taps.cheat, s.taps.witness, s.taps.twofold} {
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
		sent = t.taps.offered(other)
	}
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
		if t.owner {
			t.taps.comes(sent, leaf, me)
		}
		t.taps.carried[round][Carried{From: other, To: me, Leaf: leaf}]++
	}
	return n, err
}

// comes notes that a leaf of a contribution is with an owner.
func (t *taps) comes(c contribution, leaf uint32, owner string) {
	if t.owners[c] == nil {
		t.owners[c] = map[uint32][]string{}
	}
	if had := t.owners[c][leaf]; !slices.Contains(had, owner) {
		t.owners[c][leaf] = append(had, owner)
	}
}

// Seen returns how many leaves of the contribution of which it got most an SL got whole from others in all attempts, and the
// largest number of owners that one leaf of any contribution went to.
func (s *Swarm) Seen(name string) (most, owners int) {
	s.taps.mu.Lock()
	defer s.taps.mu.Unlock()
	for _, leaves := range s.taps.owners {
		mine := 0
		for _, to := range leaves {
			owners = max(owners, len(to))
			if slices.Contains(to, name) {
				mine++
			}
		}
		most = max(most, mine)
	}
	return most, owners
}

// Write spoils what a cheating owner sends.
func (t *tapped) Write(p []byte) (int, error) {
	var spoil func(f *frames, b []byte)
	if t.owner && (t.taps.lies(t.taps.cheat, t.local().name, t.remote().name) || t.taps.mergesWrongly(t.local().name)) {
		spoil = t.spoil
	}
	if !t.owner && t.taps.lies(t.taps.twofold, t.local().name, t.remote().name) {
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
	t.taps.mu.Lock()
	defer t.taps.mu.Unlock()
	switch {
	case f.head[0] == frameLeaf:
		if f.left == size {
			b[0] ^= 1 // the last bit of a float32's mantissa
			t.body = t.body[:0]
		}
		if t.body = append(t.body, b[:min(len(b), int(f.left))]...); len(t.body) == int(size) {
			if t.taps.spoilt[key] == nil {
				t.taps.spoilt[key] = map[uint32]merge.Digest{}
			}
			t.taps.spoilt[key][arg] = merge.Sum(t.body)
		}
	case f.head[0] == frameSeal && f.left == size && len(b) >= int(size):
		var leaves []merge.Digest
		for _, leaf := range slices.Sorted(maps.Keys(t.taps.spoilt[key])) {
			leaves = append(leaves, t.taps.spoilt[key][leaf])
		}
		at := func(i int) uint64 { return binary.LittleEndian.Uint64((*said)[1+8*i:]) }
		s := exchange.Sealed{
			Contract: string((*said)[helloName:]), Run: at(0), Round: at(1), Number: at(2), Plan: key.plan, Owner: int(arg), Shard: merge.Combine(leaves),
		}
		sig, _ := t.key.Sign(exchange.SealMessage(s)) // an Ed25519 key never fails
		copy(b, append(s.Shard[:], sig...))
		t.taps.sealed[t.local().name] = wronglyDone{s.Shard, sig}
	}
}

// deceiver is an exchange that reports other digests than it came to.
type deceiver struct {
	session.Exchange
	taps *taps
	name string
	key  crypto.PrivKey
}

// Merge implements session.Exchange.
func (d deceiver) Merge(ctx context.Context, job session.Job) (*round.Done, *round.Failed) {
	d.taps.mu.Lock()
	d.taps.jobs[d.name] = job.Plan
	d.taps.mu.Unlock()
	done, failed := d.Exchange.Merge(ctx, job)
	if done == nil {
		return done, failed
	}
	lied := false
	done.Claims = slices.Clone(done.Claims) // the hub has them too
	for i, p := range job.Plan.Participants {
		if d.taps.lies(d.taps.mishear, d.name, p.Node) {
			done.ShardDigests[i], lied = otherDigest(done.ShardDigests[i]), true
		}
	}
	if lied {
		done.ModelDigest = otherDigest(done.ModelDigest)
	}
	if d.taps.mergesWrongly(d.name) {
		lied = d.agreeWithItself(job, done) || lied
	}
	for i, c := range done.Claims {
		if d.taps.lies(d.taps.witness, d.name, job.Plan.Participants[c.Owner].Node) {
			done.Claims[i].Merged, lied = merge.Sum(c.Merged[:]), true
		}
	}
	if lied {
		_ = peering.SignDone(d.key, d.name, job, done) // An Ed25519 key never fails, and the digests are some.
	}
	return done, nil
}

// wronglyDone is a part that was not merged so.
type wronglyDone struct {
	shard merge.Digest
	seal  []byte
}

func (t *taps) mergesWrongly(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrong[name]
}

// agreeWithItself makes of a report what it would be if this node had merged as it told everybody that it has. It is false if it
// has told nobody anything.
func (d deceiver) agreeWithItself(job session.Job, done *round.Done) bool {
	d.taps.mu.Lock()
	told, known := d.taps.sealed[d.name]
	d.taps.mu.Unlock()
	if !known {
		return false
	}
	runs := job.Plan.Participants[job.Self].Shards
	var leaves []merge.Digest
	for i := range job.Layout.Leaves() {
		b := make([]byte, job.Layout.LeafLen(i))
		_, _ = job.Merging.ReadAt(b, job.Layout.LeafOffset(i)) // memory
		if slices.ContainsFunc(runs, func(r state.LeafRun) bool {
			return uint64(i)-r.First < r.Leaves //nolint:gosec // below it wraps around
		}) {
			b[0] ^= 1
		}
		leaves = append(leaves, merge.Sum(b))
	}
	done.ModelDigest = merge.Combine(leaves).String()
	done.ShardDigests[job.Self], done.Seals[job.Self] = told.shard.String(), told.seal
	for i, c := range done.Claims {
		if c.Owner == job.Self {
			done.Claims[i].Merged = told.shard
		}
	}
	return true
}

func otherDigest(text string) string {
	d := merge.Sum([]byte(text))
	return d.String()
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
