package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/scratch"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// Bounds of what a plan may say.
const (
	MaxContract     = wire.MaxContract     // bytes of a contract's name
	MaxParticipants = wire.MaxParticipants // of one attempt
)

// Stream is one bidirectional byte stream to a peer. Close ends both directions and lets what was written arrive; Reset drops everything.
type Stream = wire.Stream

// ErrPlan is wrapped by errors about an attempt that can not be run as planned.
var ErrPlan = errors.New("plan is not valid")

// ErrSuperseded is wrapped when a newer attempt of the contract is known.
var ErrSuperseded = errors.New("attempt is superseded")

// Participant is one entry of a plan. Its index in the plan names it on the
// wire and fixes the order of summation.
type Participant struct {
	Node    string      // proven name of the node
	Session string      // session at that node; only compared, may be empty
	Weight  uint32      // 0: contributes nothing, only receives
	Shard   merge.Shard // the first run of leaves that it owns; no leaves: it owns nothing
	Factor  float64     // its update is multiplied by this, over 0 to 1; 0: the method bounds no updates
	// More are further runs that it owns, in ascending order: those of owners that are gone. A leaf of its shard is known by its
	// index in all runs.
	More []merge.Shard
	// Unit is what parties are told apart by where shards have witnesses: a SPIFFE ID that is a node's own, else its node key.
	Unit string
}

// runs returns what the participant owns.
func (p Participant) runs() leafset.Runs { return append(leafset.Runs{p.Shard}, p.More...) }

// Own adds a run behind those that the participant has; the first may be empty.
func (p *Participant) Own(run merge.Shard) {
	if p.Shard == (merge.Shard{}) && len(p.More) == 0 {
		p.Shard = run
		return
	}
	p.More = append(p.More, run)
}

// Attempt is one planned exchange as this node sees it. All participants must
// hold equal values but for Self.
type Attempt struct {
	Contract           string
	Run, Round, Number uint64 // Number counts from 1 within the round
	Participants       []Participant
	Self               int // index of this node
	Layout             *merge.Layout
	Method             string
	// Epoch counts what ended an attempt of the round so that nothing of it may be resumed. It is part of the plan's digest.
	Epoch uint64
	// Witnesses is how many participants merge each shard, its owner included: see [merge.Mergers]. 0 and 1: the owner alone.
	Witnesses int
}

// Slots are the weight files of an attempt. They stay unchanged by others until
// Run returns, and none is closed. Local holds Layout.Bytes bytes; Base and
// Merged hold as many and directly behind them the optimiser's state, if the
// method has one. What was merged stays in Merged after a failed attempt so
// that the next one resumes: give the same slot again, or another name if the
// contents are not the same.
type Slots struct {
	Name   string // names the contents of Merged across attempts of a round
	Local  io.ReaderAt
	Base   io.ReaderAt // the committed model; nil: there is none yet
	Merged interface {
		io.ReaderAt
		io.WriterAt
	}
	// Spool makes a scratch file of so many bytes for an owner that can't merge
	// as leaves come in. It is called at most once per round and set of
	// participants, and the hub closes what it returned. The file must not count
	// as private memory. An error says that it does not fit; nil: there is no room.
	// The hub writes nothing to it, or to what Spill makes, but ciphertext under a
	// key that is in memory alone.
	Spool func(bytes int64) (Spool, error)
	// Spill is as Spool, for an owner that can merge as leaves come in, and must
	// hold back some contributors while another stalls: what they send meanwhile
	// goes there. It is called when the first such leaf comes, and little of the
	// file may ever be written, so it should be sparse. An error, also of a later
	// write, and nil cost traffic only: what is not kept is sent again.
	Spill func(bytes int64) (Spool, error)
}

// Lender is a slot whose bytes can be used where they lie.
type Lender = leafio.Lender

// Spool is a scratch file. Close removes it.
type Spool = scratch.File

// Failure is the error of an attempt that could not complete. Use errors.As.
type Failure struct {
	Blamed        int    // participant index; -1: nobody
	Node          string // the blamed participant's node; empty for nobody
	HeardFrom     int    // index of the participant that said so; -1: this node has seen it itself
	Reason        string // one line
	BytesReceived uint64 // progress of this attempt here
	cause         error
}

// Error names the blamed node and the reason.
func (f *Failure) Error() string {
	if f.Node == "" {
		return "exchange: " + f.Reason
	}
	return "exchange: " + f.Node + ": " + f.Reason
}

// Unwrap returns the underlying error, such as *merge.NonFinite, if it arose here.
func (f *Failure) Unwrap() error { return f.cause }

// Config holds the node's key and the times of the protocol. Times that are zero take the defaults.
type Config struct {
	StallTimeout time.Duration // no byte for so long on a stream that is owed one fails the attempt, nor a stream opened; 10 s
	ParkTime     time.Duration // how long a stream may wait for its plan; 2 s
	Grace        time.Duration // how long a failing side tries to say why, and takes what is on its way; 1 s
	// Sign signs a message by this node's key, and Verify holds a signature to the key that a stream to the participant has proven.
	Sign       func(msg []byte) ([]byte, error)
	Verify     func(node string, msg, sig []byte) error
	SpillAfter time.Duration // how long a contributor is held back for another before Slots.Spill is used; 250 ms
}

func (c Config) withDefaults() Config {
	if c.StallTimeout <= 0 {
		c.StallTimeout = 10 * time.Second
	}
	if c.ParkTime <= 0 {
		c.ParkTime = 2 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = time.Second
	}
	if c.SpillAfter <= 0 {
		c.SpillAfter = 250 * time.Millisecond
	}
	return c
}

// check validates what Run relies on and returns the method.
func (a Attempt) check() (*merge.Method, error) {
	if a.Contract == "" || len(a.Contract) > wire.MaxContract {
		return nil, fmt.Errorf("%w: contract name has %d bytes, want 1 to %d", ErrPlan, len(a.Contract), wire.MaxContract)
	}
	n := len(a.Participants)
	if a.Layout == nil || a.Number == 0 || n == 0 || n > wire.MaxParticipants || a.Self < 0 || a.Self >= n {
		return nil, fmt.Errorf("%w: attempt %d, %d participants, self %d", ErrPlan, a.Number, n, a.Self)
	}
	m, err := merge.ParseMethod(a.Method)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	if m.String() != a.Method {
		return nil, fmt.Errorf("%w: method %q is not in canonical form %q", ErrPlan, a.Method, m)
	}
	shards := make([]merge.Shard, 0, n)
	seen := make(map[string]bool, n)
	contributors, owners := 0, 0
	for i, p := range a.Participants {
		if p.Node == "" || seen[p.Node] {
			return nil, fmt.Errorf("%w: participant %d %q is unnamed or named twice", ErrPlan, i, p.Node)
		}
		seen[p.Node] = true
		own := p.runs()
		if err := own.Check(); err != nil {
			return nil, fmt.Errorf("%w: participant %d: %w", ErrPlan, i, err)
		}
		shards = append(shards, own...)
		if p.Weight > 0 {
			contributors++
		}
		if p.Shard.Leaves > 0 {
			owners++
		}
	}
	if contributors == 0 {
		return nil, fmt.Errorf("%w: %w", ErrPlan, merge.ErrWeights)
	}
	if err := merge.CheckShards(a.Layout.Leaves(), shards); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	if err := a.checkWitnesses(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return m, a.checkMethod(m, contributors, owners)
}

// checkMethod validates what the method asks of the participants.
func (a Attempt) checkMethod(m *merge.Method, contributors, owners int) error {
	if least := m.LeastContributors(); contributors < least {
		return fmt.Errorf("%w: %s needs %d participants of weight above 0, there are %d", ErrPlan, m, least, contributors)
	}
	if m.Distances() && 8*wire.Pairs(contributors)*(owners+a.mostWitnessed()) > maxDistances {
		return fmt.Errorf("%w: the distances between %d models from %d owners do not fit into %d bytes: use another method than %s",
			ErrPlan, contributors, owners, maxDistances, m.Name())
	}
	for i, p := range a.Participants {
		switch {
		case !m.BoundsNorms() && p.Factor != 0, m.BoundsNorms() && p.Weight > 0 && !(p.Factor > 0 && p.Factor <= 1):
			return fmt.Errorf("%w: participant %d has the factor %g for %s", ErrPlan, i, p.Factor, m)
		}
	}
	return nil
}

// before orders attempts of one contract.
func before(run, round, number, run2, round2, number2 uint64) bool {
	if run != run2 {
		return run < run2
	}
	if round != round2 {
		return round < round2
	}
	return number < number2
}

// planDigest covers everything that participants must agree on but the
// attempt's number: two attempts with equal digests may resume one another.
func (a Attempt) planDigest() merge.Digest {
	return a.Planned().Digest()
}

// Planned returns what all attempts of the round with these participants have in common.
func (a Attempt) Planned() Planned {
	return Planned{
		Contract: a.Contract, Run: a.Run, Round: a.Round, Method: a.Method, Layout: a.Layout.Digest(), Participants: a.Participants,
		Epoch: a.Epoch, Witnesses: a.Witnesses,
	}
}

func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// Outcome identifies the result that a participant signs.
type Outcome struct {
	Contract           string
	Run, Round, Number uint64
	Node               string
	ModelDigest        merge.Digest
	ShardsDigest       merge.Digest   // over the digests of all shards, in plan order
	ShardDigests       []merge.Digest // these digests, in place of ShardsDigest: outcomes in ledgers of before had them
	StateDigest        merge.Digest   // zero: the method has no state
	Plan               merge.Digest   // of Planned: whose model it is
	Ledger             merge.Digest   // head of the ledger when the round was planned; zero: there was none
}

// AttestationMessage returns the canonical bytes that a participant's node key signs to attest an outcome: what the ledger keeps
// of a round and its signatures. They are domain separated and length prefixed, so that no two outcomes and no other message of the
// project have the same bytes. Outcomes with ShardDigests have the bytes that they had in ledgers of before.
func AttestationMessage(o Outcome) []byte {
	version := "swarmd merge done 3\x00"
	if len(o.ShardDigests) > 0 {
		version = "swarmd merge done 2\x00"
	}
	b := []byte(version)
	b = appendText(b, o.Contract)
	b = binary.LittleEndian.AppendUint64(b, o.Run)
	b = binary.LittleEndian.AppendUint64(b, o.Round)
	b = binary.LittleEndian.AppendUint64(b, o.Number)
	b = appendText(b, o.Node)
	b = append(b, o.ModelDigest[:]...)
	if len(o.ShardDigests) > 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(o.ShardDigests))) //nolint:gosec // one for each participant
		for _, d := range o.ShardDigests {
			b = append(b, d[:]...)
		}
	} else {
		b = append(b, o.ShardsDigest[:]...)
	}
	b = append(b, o.StateDigest[:]...)
	b = append(b, o.Plan[:]...)
	return append(b, o.Ledger[:]...)
}
