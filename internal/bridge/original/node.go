package original

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/bridge/original/frames"
	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// node is the session at swarmd's bridge.
type node struct {
	session *program.Session
	arrays  []array.Array // as the session was opened with them: their data are gone
	index   map[string]int
	said    string // of what it waits for
}

// defaultWeight is the original's.
const defaultWeight = 1

// openNode opens the session. The original's client says snapshot where its program chooses no check-in mode, so that counts as chosen.
func openNode(ctx context.Context, bridge program.Bridge, o frames.Opening, arrays []array.Array) (*node, error) {
	n := &node{arrays: slices.Clone(arrays), index: make(map[string]int, len(arrays))}
	req := wire.OpenRequest{
		Contract: o.Contract, MinPeers: int(o.MinPeers), SyncFrequency: int(o.Interval), Adaptive: o.Adaptive, CheckinMode: strings.ToLower(o.CheckinMode),
		Weight: int(o.Weight), Method: o.Method, Client: "the original's own client",
	}
	if req.Weight == 0 {
		req.Weight = defaultWeight // the bridge would take it for its own default
	}
	for i := range n.arrays {
		a := &n.arrays[i]
		a.Data = nil
		n.index[a.Name] = i
		req.Tensors = append(req.Tensors, wire.Tensor{Name: a.Name, DType: a.DType.String(), Shape: append([]int64{}, a.Shape...)})
	}
	var err error
	n.session, err = bridge.Open(ctx, req)
	return n, err
}

// write puts a program's arrays into the slot that it offers. It must be the model that the session was opened with, in any order.
func (n *node) write(arrays []array.Array) error {
	if len(arrays) != len(n.arrays) {
		return wrong("the model has %d arrays now and had %d when its session was opened", len(arrays), len(n.arrays))
	}
	for i := range arrays {
		a := &arrays[i]
		at, known := n.index[a.Name]
		if !known || !a.Same(&n.arrays[at]) && !a.Returns(&n.arrays[at]) {
			return wrong("the model has an array %s now, which it had not when its session was opened", a)
		}
		off := n.session.Info.Offsets[at]
		slot := n.session.Local()[off : off+n.arrays[at].Bytes()]
		var err error
		if a.Same(&n.arrays[at]) {
			err = a.ReadInto(slot)
		} else {
			err = a.ReadWhole(&n.arrays[at], slot)
		}
		if err != nil {
			return errorInProgram{err}
		}
	}
	return nil
}

// merged are the arrays of the committed model, good until the next call of the bridge.
func (n *node) merged() []array.Value {
	model := n.session.Committed()
	list := make([]array.Value, len(n.arrays))
	for i, a := range n.arrays {
		off := n.session.Info.Offsets[i]
		list[i] = array.Value{Name: a.Name, DType: a.DType, Shape: a.Shape, Data: model[off : off+a.Bytes()]}.Loadable()
	}
	return list
}

func (n *node) close(ctx context.Context) error {
	n.session.OnNewer = nil
	_, err := n.session.Close(ctx)
	return err
}

func (n *node) abort(ctx context.Context, reason string) error { return n.session.Abort(ctx, reason) }

// release lets go of the weight files. The session stays as it is.
func (n *node) release() {
	if n != nil {
		_ = n.session.Release() // nothing is left to be done about it
	}
}

// inWords is an error in one line, with the node's remedy.
func inWords(err error) string {
	if refused, ok := errors.AsType[*program.Error](err); ok && refused.Remedy != "" {
		return fmt.Sprintf("%s: %s", err, refused.Remedy)
	}
	return err.Error()
}
