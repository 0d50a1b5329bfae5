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
	opened map[string]*opened // by the agent's options; nil: nothing is kept
}

type opened struct {
	mu      sync.Mutex
	source  identity.Provider // nil: not yet
	domains identity.Domains
}

// get opens the identity unless it is open.
func (o *opened) get(ctx context.Context, open Identify, target Context) (identity.Provider, identity.Domains, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.source == nil {
		source, domains, err := open(ctx, target)
		if err != nil {
			return nil, identity.Domains{}, err
		}
		o.source, o.domains = source, domains
	}
	return unclosed{o.source}, o.domains, nil
}

// close closes the identity if it is open.
func (o *opened) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.source != nil {
		_ = o.source.Close()
	}
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
	i.opened = map[string]*opened{}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, o := range i.opened {
			o.close()
		}
		i.opened = nil
	}
}

// get is an Identify. While one agent joins, identities from elsewhere are opened.
func (i *identities) get(ctx context.Context, target Context) (identity.Provider, identity.Domains, error) {
	if o := i.shared(target); o != nil {
		return o.get(ctx, i.open, target)
	}
	return i.open(ctx, target)
}

// shared is what serves all commands that name the target's agent; nil: the command opens its own.
func (i *identities) shared(target Context) *opened {
	i.mu.Lock()
	defer i.mu.Unlock()
	if target.agent == nil || i.opened == nil {
		return nil
	}
	o := i.opened[target.agentOptions]
	if o == nil {
		o = &opened{}
		i.opened[target.agentOptions] = o
	}
	return o
}
