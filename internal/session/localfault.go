package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/merge"
)

// notFinite begins the reason of a session that ends because its weights are not finite: a contract's rules may end all others
// with it, see state.EndNonFinite.
const notFinite = "not finite: "

// abortReason is why the session of a program that gives up has ended. The Python package names its errors.
func abortReason(said string) string {
	if text, ok := strings.CutPrefix(said, "NotFiniteError: "); ok {
		said = notFinite + text
	}
	return "failed: " + said
}

// checkLocal looks for a fault in what this node contributes: a weight file that can't be read, or a value that is not
// finite. A blame by others is no proof, so this node's own files are asked.
func checkLocal(job Job) error {
	mean, err := merge.ParseMethod("mean") // of one model: looks at every value
	if err != nil {
		return err
	}
	merger, err := mean.NewMerger(job.Layout, merge.Contributors{Weights: []uint32{1}})
	if err != nil {
		return err
	}
	src, dst := make([]byte, merge.MaxLeafSize), make([]byte, merge.MaxLeafSize)
	for i := range job.Layout.Leaves() {
		n := job.Layout.LeafLen(i)
		if _, err := job.Source.ReadAt(src[:n], job.Layout.LeafOffset(i)); err != nil {
			return reasoned(err, "SLOT_UNREADABLE")
		}
		err := merger.Leaf(i, dst[:n], [][]byte{src[:n]}, nil)
		if bad := (*merge.NonFinite)(nil); errors.As(err, &bad) {
			return &Error{
				"NOT_FINITE", fmt.Sprintf(notFinite+"%s, so the model is not merged", bad),
				"lower the learning rate, clip gradients or look for bad input data",
			}
		}
	}
	return nil
}

// giveUpLocked ends the session because of what its own program handed in: repeating the attempt would not help. The
// program hears err at once, the contract as soon as it can be told.
func (s *session) giveUpLocked(err error) {
	if s.ended() {
		return
	}
	s.err = err
	s.recordLocked()
	s.lifecycle.notifyLocked()
	s.engine.cfg.Log.Error("session given up", "contract", s.contract, "session", s.id, "err", err)
	s.tellFailureLocked(err)
}

// tellFailureLocked tells the contract why the session ended.
func (s *session) tellFailureLocked(err error) {
	s.lifecycle.spawnLocked(func() {
		defer s.lifecycle.cancel()
		if err := s.engine.cfg.Control.End(s.lifecycle.ctx, s.endRequest("failed: "+err.Error(), 1)); err != nil && s.lifecycle.ctx.Err() == nil {
			s.engine.cfg.Log.Warn("could not tell the contract that the session failed", "err", err)
		}
	})
}
