// Package proof keeps what a node has signed of committed rounds. With the signatures of the others it proves them to SNs that were restored
// from a backup and know nothing of them any more.
package proof

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

const (
	// Kept is how many rounds a Book holds: nodes may be a few rounds apart, and must find one that most of them have signed.
	Kept = 4
	// maxParticipants bounds what is told of all rounds together, so that it fits into a report.
	maxParticipants = 2048
	// maxFile bounds what is read of a file, in bytes.
	maxFile = 1 << 20
)

// Book holds the newest rounds of one contract's run that a node has signed. The zero value is empty. It is not safe for concurrent use.
type Book struct {
	all []*swarmv1.RoundProof // newest first
}

// Add puts a committed round in, with its plan and what the node has reported of it. Nobody may change them afterwards.
func (b *Book) Add(plan *swarmv1.Plan, layout string, done *swarmv1.Done) {
	b.Put(&swarmv1.RoundProof{Plan: plan, LayoutDigest: layout, Done: done})
}

// Put puts a round in that is proven, if it is newer than the oldest one or there is room.
func (b *Book) Put(p *swarmv1.RoundProof) {
	if !whole(p) {
		return // claims of parts that differ are not signed for the ledger
	}
	round := p.GetPlan().GetRound()
	i, had := slices.BinarySearchFunc(b.all, round, func(x *swarmv1.RoundProof, round uint64) int { return cmp.Compare(round, x.GetPlan().GetRound()) })
	if had {
		b.all[i] = p
		return
	}
	b.all = slices.Insert(b.all, i, p)
	b.all = b.all[:min(len(b.all), Kept)]
}

// whole tells whether all is there that a round is proven by.
func whole(p *swarmv1.RoundProof) bool {
	plan, done := p.GetPlan(), p.GetDone()
	return len(done.GetSignature()) > 0 && plan.GetRound() > 0 && plan.GetRound() == done.GetRound() && plan.GetAttempt() == done.GetAttempt()
}

// Told returns what a report says of the rounds, newest first.
func (b *Book) Told() (out []*swarmv1.RoundProof) {
	n := 0
	for _, p := range b.all {
		if n += len(p.GetPlan().GetParticipants()); n > maxParticipants && len(out) > 0 {
			break
		}
		out = append(out, essence(p))
	}
	return out
}

// Of returns a round, nil if this node has not signed it.
func (b *Book) Of(round uint64, digest string) *swarmv1.RoundProof {
	for _, p := range b.all {
		if p.GetPlan().GetRound() == round && p.GetDone().GetModelDigest() == digest {
			return p
		}
	}
	return nil
}

// essence is a round without what proves nothing.
func essence(p *swarmv1.RoundProof) *swarmv1.RoundProof {
	from, done := p.GetPlan(), p.GetDone()
	plan := &swarmv1.Plan{
		Run: from.GetRun(), Round: from.GetRound(), Attempt: from.GetAttempt(), Method: from.GetMethod(), LedgerHead: from.GetLedgerHead(),
		Epoch: from.GetEpoch(), Witnesses: from.GetWitnesses(),
	}
	for _, x := range from.GetParticipants() {
		part := &swarmv1.Participant{
			Session: x.GetSession(), Node: x.GetNode(), PeerId: x.GetPeerId(), Weight: x.GetWeight(), ShardFirst: x.GetShardFirst(),
			ShardLeaves: x.GetShardLeaves(), Factor: x.GetFactor(), MoreShards: x.GetMoreShards(),
		}
		if plan.Witnesses > 0 {
			part.SpiffeId = x.GetSpiffeId()
		}
		plan.Participants = append(plan.Participants, part)
	}
	return &swarmv1.RoundProof{Plan: plan, LayoutDigest: p.GetLayoutDigest(), Done: &swarmv1.Done{
		Round: done.GetRound(), Attempt: done.GetAttempt(), ModelDigest: done.GetModelDigest(), ShardsDigest: done.GetShardsDigest(),
		StateDigest: done.GetStateDigest(), Signature: done.GetSignature(),
	}}
}

// Path is where the proof of a model lies that is kept in a file.
func Path(model string) string { return strings.TrimSuffix(model, filepath.Ext(model)) + ".proof" }

// copyBuffer is the size of reads and writes, in bytes, unless the whole is known to be shorter.
const copyBuffer = 1 << 20

// WriteFile writes what a reader has, and makes the folder for it. It does so under a temporary name first, so that a file with the right name
// is whole; with sync it is on the disk when this returns.
func WriteFile(path string, r io.Reader, sync bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return err
	}
	size := int64(copyBuffer)
	if known, ok := r.(interface{ Size() int64 }); ok {
		size = max(1, min(size, known.Size()))
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, make([]byte, size))
	switch {
	case err != nil:
	case sync:
		err = f.Replace()
	default:
		err = f.ReplaceUnsynced()
	}
	return errors.Join(err, f.Close())
}

// Write keeps a round beside its model; it does nothing for nil.
func Write(path string, p *swarmv1.RoundProof) error {
	if p == nil {
		return nil
	}
	raw, err := proto.Marshal(essence(p))
	if err != nil || len(raw) > maxFile {
		return errors.Join(err, fmt.Errorf("the proof of round %d has %d bytes", p.GetPlan().GetRound(), len(raw)))
	}
	return WriteFile(path, bytes.NewReader(raw), false)
}

// Read returns the round of a run that a file proves, as it stands there. The error wraps os.ErrNotExist if there is no file.
func Read(path string, run uint64) (*swarmv1.RoundProof, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	p := &swarmv1.RoundProof{}
	if err := proto.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !whole(p) || p.GetPlan().GetRun() != run {
		return nil, fmt.Errorf("%s proves no round of run %d", path, run)
	}
	return p, nil
}
