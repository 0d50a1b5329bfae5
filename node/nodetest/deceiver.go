package nodetest

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
)

// deceiver is an exchange that reports other digests than it came to.
type deceiver struct {
	session.Exchange
	liars *Liars
	name  string
	key   crypto.PrivKey
}

// Merge implements session.Exchange.
func (d deceiver) Merge(ctx context.Context, job session.Job) (*round.Done, *round.Failed) {
	d.liars.mu.Lock()
	d.liars.jobs[d.name] = job.Plan
	d.liars.mu.Unlock()
	done, failed := d.Exchange.Merge(ctx, job)
	if done == nil {
		return done, failed
	}
	lied := false
	done.Claims = slices.Clone(done.Claims) // the hub has them too
	for i, p := range job.Plan.Participants {
		if d.liars.lies(d.liars.mishear, d.name, p.Node) {
			done.ShardDigests[i], lied = otherDigest(done.ShardDigests[i]), true
		}
	}
	if lied {
		done.ModelDigest = otherDigest(done.ModelDigest)
	}
	if d.liars.mergesWrongly(d.name) {
		lied = d.agreeWithItself(job, done) || lied
	}
	for i, c := range done.Claims {
		if d.liars.lies(d.liars.witness, d.name, job.Plan.Participants[c.Owner].Node) {
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

// agreeWithItself makes of a report what it would be if this node had merged as it told everybody that it has. It is false if it
// has told nobody anything.
func (d deceiver) agreeWithItself(job session.Job, done *round.Done) bool {
	d.liars.mu.Lock()
	told, known := d.liars.sealed[d.name]
	d.liars.mu.Unlock()
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
