package swop

import (
	"context"
	"log/slog"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/health"
)

const (
	interval    = time.Second     // between heartbeats while there is no news
	beatTimeout = 5 * time.Second // of one heartbeat
	// steady is for how long heartbeats must be taken before it is said that they are taken again.
	steady = 30 * time.Second
)

// API is the swarm's, as heartbeats need it.
type API interface {
	// Report is one heartbeat, with what the host says of its members.
	Report(ctx context.Context, req *swarmv1.ReportRequest, members []task.MemberReport) (*swarmv1.ReportResponse, error)
	// Renew registers the node again where that is due.
	Renew(ctx context.Context) error
}

// Host carries out assignments.
type Host interface {
	// Report returns what has become of its members.
	Report() []task.MemberReport
	// News returns a channel that is closed at the next change of Report.
	News() <-chan struct{}
	// Heard says that a leader has answered a heartbeat, and when that was sent.
	Heard(sent time.Time)
}

// Bans are the node keys that are shut out of the swarm.
type Bans interface {
	// Seen returns the digest of the list that was taken last.
	Seen() string
	// Take takes the list, unless its digest is that of the one before.
	Take(digest string, peerIDs []string)
}

// Beats are the heartbeats of a host.
type Beats struct {
	API    API
	Host   Host
	Health *health.Monitor           // goes along; nil: nothing does
	Bans   Bans                      // kept up to date
	Logs   func([]*swarmv1.LogOrder) // hears which logs operators ask for; nil: nobody does
	Log    *slog.Logger

	failed int // heartbeats in a row that steady does not part
	last   time.Time
}

// Run sends heartbeats until ctx ends: one every second, and one at once when there is news.
func (b *Beats) Run(ctx context.Context) error {
	for {
		news, sent := b.Host.News(), time.Now()
		err := b.beat(ctx, b.Host.Report(), sent)
		if ctx.Err() == nil {
			b.note(err)
		}
		if err != nil {
			news = nil // it would be no less in vain
		}
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-time.After(time.Until(sent.Add(interval))):
		}
	}
}

// beat sends one heartbeat.
func (b *Beats) beat(ctx context.Context, told []task.MemberReport, sent time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	req := &swarmv1.ReportRequest{BansSeen: b.Bans.Seen()}
	if b.Health != nil {
		req.Health = b.Health.Report().Proto()
	}
	res, err := b.API.Report(ctx, req, told)
	if err != nil {
		return err
	}
	b.Bans.Take(res.GetBansDigest(), res.GetBannedPeerIds())
	if b.Health != nil {
		b.Health.Seen()
	}
	if b.Logs != nil {
		b.Logs(res.GetLogs())
	}
	b.Host.Heard(sent)
	return b.API.Renew(ctx)
}

// note says in the log when heartbeats begin to fail, and when none has failed for a while.
func (b *Beats) note(err error) {
	switch {
	case err != nil:
		b.last = time.Now()
		if b.failed++; b.failed == 1 {
			b.Log.Warn("heartbeat was not taken; trying again", "err", err)
		}
	case b.failed > 0 && time.Since(b.last) >= steady:
		b.Log.Info("heartbeats are taken again", "failed", b.failed)
		b.failed = 0
	}
}
