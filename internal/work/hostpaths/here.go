package hostpaths

import (
	"context"
	"fmt"
)

// Here sees the host that this process is on. It is safe for concurrent use, and has no look wait for one that is stuck.
type Here struct {
	root  string
	looks looks

	see func(root string, before func(at string) error) looker // lookerAt
}

// NewHere returns one that sees all of the host.
func NewHere() *Here { return hereBelow("/") }

// hereBelow returns one whose world is a directory.
func hereBelow(root string) *Here { return &Here{root: root, see: lookerAt} }

// Resolve implements Resolver. What takes longer than 10 seconds is an error, and is not looked at again before it has ended.
func (h *Here) Resolve(ctx context.Context, names []string) (map[string]Lead, error) {
	if all := tooMany(names); all != nil {
		return all, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, fmt.Errorf("no answer within %v", lookTime))
	defer cancel()
	l, err := h.looks.begin(ctx)
	if err != nil {
		return nil, err
	}
	type answer struct {
		leads map[string]Lead
		err   error
	}
	said := make(chan answer, 1)
	go func() { // it outlives the call if it is stuck
		leads, err := h.see(h.root, func(at string) error { return h.looks.step(ctx, l, at) }).walkAll(names)
		h.looks.end(l)
		said <- answer{leads, err}
	}()
	select {
	case a := <-said:
		return a.leads, a.err
	case <-ctx.Done():
		return nil, &stuckError{h.looks.giveUp(l, ""), l.ended, context.Cause(ctx)}
	}
}
