package nodetest

import (
	"context"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// provider is identity.Provider in memory.
type provider struct {
	*rpctest.Source
	id identity.ID

	mu      sync.Mutex // guards what follows
	changed chan struct{}
}

var _ identity.Provider = (*provider)(nil)

// open is node.Common.OpenIdentity.
func (p *provider) open(context.Context, identity.Role, string) (identity.Provider, error) {
	return p, nil
}

// rotate issues a new SVID.
func (p *provider) rotate(life time.Duration) error {
	if err := p.Rotate(life); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// ID implements identity.Provider.
func (p *provider) ID() identity.ID { return p.id }

// Changed implements identity.Provider.
func (p *provider) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Status implements identity.Provider.
func (p *provider) Status() identity.Status {
	svid, err := p.GetX509SVID()
	if err != nil {
		return identity.Status{Origin: "memory", Problem: err.Error()}
	}
	leaf := svid.Certificates[0]
	return identity.Status{
		Origin: "memory", ID: p.id, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Updated: leaf.NotBefore,
		Domains: []string{p.id.SPIFFE().TrustDomain().Name()},
	}
}

// Close implements identity.Provider; the source outlives the node's runs.
func (p *provider) Close() error { return nil }
