package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/swci/cluster"
)

// session is what a program does with its SL: *program.Session.
type session interface {
	Local() []byte
	Sync(context.Context) (program.Result, error)
	Committed() []byte
	Release() error
}

// peer is one SL's stand-in program.
type peer struct {
	bridge  string
	session session
}

// programs are those of all SLs, as they take part in one round after the other.
type programs struct {
	peers     []*peer
	reference *reference
	syncs     int
}

// round has all programs write new weights, then sync at once, and checks the model that each reads. What it returns is the time of
// the middle part: from the last one's call to the last one's merged model.
func (p *programs) round(ctx context.Context) (time.Duration, error) {
	p.syncs++
	p.write()
	results, took, err := p.sync(ctx)
	if err != nil {
		return 0, err
	}
	for i, r := range results {
		if r.Digest != results[0].Digest {
			return 0, wrong("round %d: %s merged to another model than %s", r.Round, cluster.SLName(i), cluster.SLName(0))
		}
	}
	if err := p.check(results[0]); err != nil {
		return 0, fmt.Errorf("round %d: %w", results[0].Round, err)
	}
	return took, nil
}

func (p *programs) write() {
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, peer := range p.peers {
		g.Go(func() error {
			p.reference.offers.write(peer.session.Local(), i, p.syncs, 0)
			return nil
		})
	}
	_ = g.Wait()
}

func (p *programs) sync(ctx context.Context) ([]program.Result, time.Duration, error) {
	calls := make([]time.Time, len(p.peers))
	results := make([]program.Result, len(p.peers))
	g, gctx := errgroup.WithContext(ctx)
	for i, peer := range p.peers {
		g.Go(func() (err error) {
			calls[i] = time.Now()
			if results[i], err = peer.session.Sync(gctx); err != nil {
				return fmt.Errorf("%s: %w", cluster.SLName(i), err)
			}
			if !results[i].Contributed {
				return fmt.Errorf("%s was left out of round %d", cluster.SLName(i), results[i].Round)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, 0, err
	}
	return results, time.Since(slices.MaxFunc(calls, time.Time.Compare)), nil
}

// check holds what all programs read to the reference.
func (p *programs) check(r program.Result) error {
	var names []string
	var read [][]byte
	for i, peer := range p.peers {
		names = append(names, cluster.SLName(i))
		read = append(read, peer.session.Committed())
	}
	var plan []int
	for _, name := range r.Participants {
		i := slices.Index(names, name)
		if i < 0 {
			return wrong("the swarm names %s as a participant, which there is not", name)
		}
		plan = append(plan, i)
	}
	return p.reference.check(p.syncs, plan, read, r.Digest)
}
