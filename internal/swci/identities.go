package swci

import (
	"context"
	"sync"

	"github.com/swarmd/swarmd/identity"
)

// identities opens swarmctl's own identity. While it keeps them, one from a SPIRE agent that had to be started serves all
// commands that name the same agent: an agent takes seconds to join.
type identities struct {
	open Identify

	mu     sync.Mutex
	opened map[string]opened // by the agent's options; nil: nothing is kept
}

type opened struct {
	source  identity.Provider
	domains identity.Domains
}

// unclosed is an identity that its user does not close.
type unclosed struct{ identity.Provider }

// Close implements identity.Provider.
func (unclosed) Close() error { return nil }

// keep keeps identities from agents until release, which closes them. Where they are kept already, whoever began does so.
func (i *identities) keep() (release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.opened != nil {
		return func() {}
	}
	i.opened = map[string]opened{}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, o := range i.opened {
			_ = o.source.Close()
		}
		i.opened = nil
	}
}

// get is an Identify.
func (i *identities) get(ctx context.Context, target Context) (identity.Provider, identity.Domains, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if target.agent == nil || i.opened == nil {
		return i.open(ctx, target)
	}
	o, ok := i.opened[target.agentOptions]
	if !ok {
		var err error
		if o.source, o.domains, err = i.open(ctx, target); err != nil {
			return nil, identity.Domains{}, err
		}
		i.opened[target.agentOptions] = o
	}
	return unclosed{o.source}, o.domains, nil
}
