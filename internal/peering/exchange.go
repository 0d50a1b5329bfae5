// Package peering is how an SL takes part with others: it carries out merges over the network, signs what came out, fetches and serves
// models, and speaks for a session with the swarm's API.
package peering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// Protocol is the libp2p protocol of merge streams.
const Protocol = "/swarm/merge/1"

// Network is how an SL reaches other SLs. Peers are named by their libp2p peer IDs, which the network proves; it holds
// their SPIFFE IDs to the registered ones.
type Network interface {
	// OpenMerge opens a merge stream, for bulk or not.
	OpenMerge(ctx context.Context, to *round.Participant, bulk bool) (exchange.Stream, error)
	// FetchModel writes a committed model of a holder to dst, and behind it the state that is named: so many bytes in all.
	FetchModel(ctx context.Context, from *round.Session, m round.Ref, bytes int64, dst io.Writer) error
}

// Exchanger carries out the engine's attempts over the network and signs what came out.
type Exchanger struct {
	Hub     *exchange.Hub
	Network Network
	Key     crypto.PrivKey // node key
	Peer    string         // this node's name
}

var _ session.Exchange = (*Exchanger)(nil)

// Traffic implements session.Exchange.
func (x *Exchanger) Traffic() (sent, received uint64) {
	return x.Hub.SentBytes(), x.Hub.ReceivedBytes()
}

// attemptOf is what the exchange is to carry out.
func attemptOf(job session.Job) exchange.Attempt {
	p := job.Plan
	a := exchange.Attempt{
		Contract: job.Contract, Run: p.Run, Round: p.Round, Number: p.Attempt, Self: job.Self, Layout: job.Layout, Method: p.Method, Epoch: p.Epoch,
		Witnesses: int(p.Witnesses),
	}
	for _, m := range p.Participants {
		// Streams prove a peer ID; that it belongs to the node's name is the replicated state's word.
		part := exchange.Participant{Node: m.PeerID, Session: m.Session, Weight: m.Weight, Factor: m.Factor, Unit: m.Unit()}
		for _, r := range m.Shards {
			part.Own(merge.Shard{First: int(r.First), Leaves: int(r.Leaves)}) //nolint:gosec // checked by Run
		}
		a.Participants = append(a.Participants, part)
	}
	return a
}

// Planned implements session.Exchange.
func (x *Exchanger) Planned(job session.Job) string {
	a := attemptOf(job)
	return a.Planned().Digest().String()
}

// Merge implements session.Exchange.
func (x *Exchanger) Merge(ctx context.Context, job session.Job) (*round.Done, *round.Failed) {
	p, a := job.Plan, attemptOf(job)
	slots := exchange.Slots{
		Name: strconv.FormatUint(job.Turn, 10), Local: job.Source, Merged: job.Merging, Base: job.Base,
	}
	if job.Spool != nil {
		slots.Spool = func(bytes int64) (exchange.Spool, error) { return job.Spool(bytes) }
	}
	if job.Stash != nil {
		slots.Spill = func(bytes int64) (exchange.Spool, error) { return job.Stash(bytes) }
	}
	done, err := x.Hub.Run(ctx, a, slots, func(ctx context.Context, i int, bulk bool) (exchange.Stream, error) {
		return x.Network.OpenMerge(ctx, p.Participants[i], bulk)
	})
	if err != nil {
		return nil, failed(ctx, p, err)
	}
	if err := SignDone(x.Key, x.Peer, job, done); err != nil {
		return nil, &round.Failed{Round: p.Round, Attempt: p.Attempt, Reason: fmt.Sprintf("sign the result: %v", err)}
	}
	return done, nil
}

// VerifySeals implements session.Exchange.
func (x *Exchanger) VerifySeals(job session.Job) *round.Failed {
	p := job.Plan
	if err := x.Hub.VerifySeals(job.Contract, p.Run, p.Round, p.Attempt); err != nil {
		return failed(context.Background(), p, err)
	}
	return nil
}

// Forget implements session.Exchange.
func (x *Exchanger) Forget(contract string) { x.Hub.Forget(contract) }

// SignDone signs for the ledger what a node reports on the job, unless the node itself has merged something otherwise. It sets the digest
// over all shards.
func SignDone(key crypto.PrivKey, peer string, job session.Job, done *round.Done) error {
	a := attemptOf(job)
	o := exchange.Outcome{
		Contract: job.Contract, Run: job.Plan.Run, Round: done.Round, Number: done.Attempt, Node: peer, Plan: a.Planned().Digest(),
	}
	var err error
	for _, x := range []struct {
		text string
		to   *merge.Digest
	}{{done.ModelDigest, &o.ModelDigest}, {done.StateDigest, &o.StateDigest}, {job.Plan.LedgerHead, &o.Ledger}} {
		if x.text == "" {
			continue // there is none
		}
		if *x.to, err = merge.ParseDigest(x.text); err != nil {
			return err
		}
	}
	var shards []merge.Digest
	for _, text := range done.ShardDigests {
		d, err := merge.ParseDigest(text)
		if err != nil {
			return err
		}
		shards = append(shards, d)
	}
	o.ShardsDigest = merge.Combine(shards)
	done.ShardsDigest = o.ShardsDigest.String()
	if done.Signature = nil; !round.Disagrees(shards, done.Claims) {
		done.Signature, err = key.Sign(exchange.AttestationMessage(o))
	}
	return err
}

// HubConfig returns the exchange's settings for a node with this key. Peers are named by their peer IDs.
func HubConfig(key crypto.PrivKey) exchange.Config {
	return exchange.Config{Sign: key.Sign, Verify: identity.VerifyNodeSignature}
}

// failed reports a failure; a superseded attempt reports nothing.
func failed(ctx context.Context, p *round.Plan, err error) *round.Failed {
	if ctx.Err() != nil {
		return nil
	}
	f := &round.Failed{Round: p.Round, Attempt: p.Attempt, Reason: err.Error()}
	var why *exchange.Failure
	if errors.As(err, &why) {
		f.Reason, f.BytesReceived = why.Reason, why.BytesReceived
		if why.Blamed >= 0 && why.Blamed < len(p.Participants) {
			f.Blamed = p.Participants[why.Blamed].Node
		}
		if why.HeardFrom >= 0 && why.HeardFrom < len(p.Participants) {
			f.HeardFrom = p.Participants[why.HeardFrom].Node
		}
	}
	if dial := (*reach.Error)(nil); f.Blamed != "" && errors.As(err, &dial) {
		f.Unreached = &round.Unreached{Node: f.Blamed, Address: shownAddress(dial.HostPort), Cause: dial.Cause}
	}
	for _, m := range p.Participants { // the exchange knows peers by the ID that their streams prove
		f.Reason = strings.ReplaceAll(f.Reason, m.PeerID, m.Node)
	}
	// Cut within a character it could not be sent, and no heartbeat would be taken while this attempt runs.
	f.Reason = text.Cut(f.Reason, 512)
	return f
}

// Fetch implements session.Exchange.
func (x *Exchanger) Fetch(ctx context.Context, from *round.Session, m round.Ref, bytes int64, dst io.WriterAt) error {
	return x.Network.FetchModel(ctx, from, m, bytes, io.NewOffsetWriter(dst, 0))
}
