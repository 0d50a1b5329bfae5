package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/fetch"
)

const (
	// recordTime is shorter than who fetches waits for an answer.
	recordTime = 10 * time.Second
	// maxReleases bounds what is remembered of it.
	maxReleases = 256
)

// Recorder is the part of the API that has the ledger note a fetch. *client.Client fulfils it.
type Recorder interface {
	RecordFetch(ctx context.Context, req *swarmv1.RecordFetchRequest) error
}

// Releases sees to it that no model leaves this node for an operator before the ledger says so. Safe for concurrent use.
type Releases struct {
	API     Recorder
	Key     crypto.PrivKey // node key
	Node    string
	SwarmID func() string

	mu   sync.Mutex
	done map[release]bool
}

// release is what is recorded once.
type release struct {
	contract   string
	run, round uint64
	digest, by string
}

// Record returns when the fetch is on record. An error says why the model stays here.
func (l *Releases) Record(ctx context.Context, by string, req fetch.Request) error {
	what := release{req.Contract, req.Run, req.Round, req.Digest, by}
	l.mu.Lock()
	known := l.done[what]
	l.mu.Unlock()
	if known { // it goes on after a break, or fetches again
		return nil
	}
	at := time.Now().UnixMilli()
	sig, err := l.Key.Sign(identity.FetchMessage(identity.Fetch{
		SwarmID: l.SwarmID(), Node: l.Node, Contract: req.Contract, Run: req.Run, Round: req.Round, Model: req.Digest, By: by, AtMS: at,
	}))
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, recordTime)
		defer cancel()
		err = l.API.RecordFetch(ctx, &swarmv1.RecordFetchRequest{
			Contract: req.Contract, Run: req.Run, Round: req.Round, Digest: req.Digest, By: by, AtUnixMs: at, Signature: sig,
		})
	}
	if err != nil {
		return fmt.Errorf("the fetch is not on record, so the model is not let out: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.done) >= maxReleases || l.done == nil {
		l.done = map[release]bool{}
	}
	l.done[what] = true
	return nil
}
