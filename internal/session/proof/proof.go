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

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
)

const (
	// Kept is how many rounds a History holds: nodes may be a few rounds apart, and must find one that most of them have signed.
	Kept = 4
	// maxParticipants bounds what is told of all rounds together, so that it fits into a report.
	maxParticipants = 2048
	// maxFile bounds what is read of a file, in bytes.
	maxFile = 1 << 20
)

// History holds the newest rounds of one contract's run that a node has signed. The zero value is empty. It is not safe for concurrent use.
type History struct {
	all []*round.Proof // newest first
}

// Add puts a committed round in, with its plan and what the node has reported of it. Nobody may change them afterwards.
func (h *History) Add(plan *round.Plan, layout string, done *round.Done) {
	h.Put(&round.Proof{Plan: plan, Layout: layout, Done: done})
}

// Put puts a round in that is proven, if it is newer than the oldest one or there is room.
func (h *History) Put(p *round.Proof) {
	if !whole(p) {
		return // claims of parts that differ are not signed for the ledger
	}
	i, had := slices.BinarySearchFunc(h.all, p.Plan.Round, func(x *round.Proof, n uint64) int { return cmp.Compare(n, x.Plan.Round) })
	if had {
		h.all[i] = p
		return
	}
	h.all = slices.Insert(h.all, i, p)
	h.all = h.all[:min(len(h.all), Kept)]
}

// whole reports whether all is there that a round is proven by.
func whole(p *round.Proof) bool {
	plan, done := p.Plan, p.Done
	return plan != nil && done != nil && len(done.Signature) > 0 && plan.Round > 0 && plan.Round == done.Round && plan.Attempt == done.Attempt
}

// Told returns what a report says of the rounds, newest first.
func (h *History) Told() (out []*round.Proof) {
	n := 0
	for _, p := range h.all {
		if n += len(p.Plan.Participants); n > maxParticipants && len(out) > 0 {
			break
		}
		out = append(out, essence(p))
	}
	return out
}

// Of returns a round, nil if this node has not signed it.
func (h *History) Of(m round.Model) *round.Proof {
	for _, p := range h.all {
		if p.Plan.Round == m.Round && p.Done.ModelDigest == m.Digest {
			return p
		}
	}
	return nil
}

// essence is a round without what proves nothing.
func essence(p *round.Proof) *round.Proof {
	from, done := p.Plan, p.Done
	plan := &round.Plan{
		Run: from.Run, Round: from.Round, Attempt: from.Attempt, Method: from.Method, LedgerHead: from.LedgerHead,
		Epoch: from.Epoch, Witnesses: from.Witnesses,
	}
	for _, x := range from.Participants {
		part := &round.Participant{
			Session: x.Session, Node: x.Node, PeerID: x.PeerID, Weight: x.Weight, Shards: x.Shards, Factor: x.Factor,
		}
		if plan.Witnesses > 0 {
			part.SPIFFEID = x.SPIFFEID
		}
		plan.Participants = append(plan.Participants, part)
	}
	return &round.Proof{Plan: plan, Layout: p.Layout, Done: &round.Done{
		Round: done.Round, Attempt: done.Attempt, ModelDigest: done.ModelDigest, ShardsDigest: done.ShardsDigest,
		StateDigest: done.StateDigest, Signature: done.Signature,
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
func Write(path string, p *round.Proof) error {
	if p == nil {
		return nil
	}
	raw, err := onwire.ProofFile(essence(p))
	if err != nil || len(raw) > maxFile {
		return errors.Join(err, fmt.Errorf("the proof of round %d has %d bytes", p.Plan.Round, len(raw)))
	}
	return WriteFile(path, bytes.NewReader(raw), false)
}

// Read returns the round of a run that a file proves, as it stands there. The error wraps os.ErrNotExist if there is no file.
func Read(path string, run uint64) (*round.Proof, error) {
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
	p, err := onwire.FromProofFile(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !whole(p) || p.Plan.Run != run {
		return nil, fmt.Errorf("%s proves no round of run %d", path, run)
	}
	return p, nil
}
