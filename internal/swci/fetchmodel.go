package swci

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/fetch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/swci/modelfile"
)

// fetchTries is how often all holders are asked before a fetch is given up.
const fetchTries = 3

// modelFetch is one get model.
type modelFetch struct {
	session *Session
	opts    *cli.Context
	model   *swarmv1.Model
	meta    modelfile.Meta
	named   string // the swarm, with its epoch
	from    string // holder that gave the last byte
}

// run writes the whole file. A holder that breaks off is followed by the next one, from the byte that is due.
func (j *modelFetch) run(ctx context.Context, out io.Writer) error {
	head, err := j.meta.Header()
	if err != nil {
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	target, err := j.session.target(j.opts)
	if err != nil {
		return err
	}
	source, domains, err := j.session.Identify(ctx, target)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader) // of this fetch alone: swarmctl is no node
	if err != nil {
		return err
	}
	host, err := p2p.NewHost(p2p.Config{
		Key: key, Source: source, Domains: domains, SwarmID: func() string { return j.named }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	vector := modelfile.NewWriter(j.meta.Layout, out)
	if err := j.fetch(ctx, host, vector); err != nil {
		return err
	}
	if got := vector.Digest(); got != j.meta.Digest {
		return fmt.Errorf("what came has digest %.16s…, committed is %.16s…: try again, with fewer nodes up if it stays so", got, j.meta.Digest)
	}
	return nil
}

// fetch asks the holders in turn until all bytes are there.
func (j *modelFetch) fetch(ctx context.Context, host *p2p.Host, vector *modelfile.Writer) error {
	size := j.meta.Layout.Bytes()
	progress := j.session.meter("fetching the model", size)
	defer progress.end()
	var errs []error
	for range fetchTries {
		for _, h := range j.model.GetHolders() {
			err := j.from1(ctx, host, h, io.MultiWriter(vector, progress), vector.Written())
			if err == nil && vector.Written() == size {
				j.from = h.GetNode()
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			errs = append(errs, fmt.Errorf("from %s: %w", h.GetNode(), err))
		}
	}
	return errors.Join(errs[max(0, len(errs)-len(j.model.GetHolders())):]...)
}

// from1 asks one holder for the bytes from an offset on.
func (j *modelFetch) from1(ctx context.Context, host *p2p.Host, h *swarmv1.Session, dst io.Writer, offset int64) error {
	id, err := peer.Decode(h.GetPeerId())
	if err != nil {
		return fmt.Errorf("peer ID %q: %w", h.GetPeerId(), err)
	}
	stream, err := host.DialFit(ctx, p2p.Addr{PeerID: id, Host: h.GetHost(), Port: int(h.GetFsPort())}, fetch.Protocol, func(p p2p.Peer) error {
		if role := p.Identity.Role(); role != identity.RoleSL { // who holds models is an SN's word
			return fmt.Errorf("%s has the role %s, not sl", h.GetNode(), role)
		}
		if proven := p.Identity.String(); proven != h.GetSpiffeId() && proven != h.GetSpiffeId()+"/"+h.GetNode() {
			return fmt.Errorf("%s shows the SPIFFE ID %s and is registered as %q", h.GetNode(), proven, h.GetSpiffeId())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return fetch.Over(ctx, stream, fetch.Request{
		Kind: "model", Contract: j.meta.Contract, Run: j.meta.Run, Round: j.meta.Round, Digest: j.meta.Digest, Offset: offset,
	}, j.meta.Layout.Bytes()-offset, dst)
}

// meterEvery is how often a meter moves.
const meterEvery = 200 * time.Millisecond

// meter shows on a terminal how far a transfer is; elsewhere it is silent.
type meter struct {
	session *Session
	what    string
	done    int64
	size    int64
	shown   time.Time
	began   time.Time
	moved   bool
}

func (s *Session) meter(what string, size int64) *meter {
	return &meter{session: s, what: what, size: size, began: s.Env.Now()}
}

// Write implements io.Writer; it never fails.
func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	now := m.session.Env.Now()
	if m.session.JSON || now.Sub(m.began) < time.Second || now.Sub(m.shown) < meterEvery || !m.session.Env.IsTerminal(m.session.Env.Stderr) {
		return len(p), nil
	}
	m.shown, m.moved = now, true
	const mib = 1 << 20
	speed := float64(m.done) / mib / now.Sub(m.began).Seconds()
	fmt.Fprintf(m.session.Env.Stderr, "\r%s: %d of %d MiB (%d %%), %.0f MiB/s ", m.what, m.done/mib, m.size/mib, 100*m.done/max(m.size, 1), speed)
	return len(p), nil
}

func (m *meter) end() {
	if m.moved {
		fmt.Fprintln(m.session.Env.Stderr)
	}
}
