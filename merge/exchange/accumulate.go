package exchange

import (
	"errors"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// accumulator merges what this node owns, and what it witnesses, from all contributions.
type accumulator struct {
	plan      *assignment
	lifecycle *lifecycle
	progress  *progress
	store     *store
	codec     *leafio.Codec
	collect   *collector
	signer    signer
	spool     func(int64) (Spool, error)
	given     leafset.Bitmap // leaves of the task merged before this attempt: no contribution is needed
	spare     []byte         // room for a merged leaf
}

// run merges the task, and ends the attempt if it can't.
func (a *accumulator) run() {
	defer a.collect.work.idle()
	if done, _ := a.progress.finished(a.plan.task()); done {
		return
	}
	err := a.progress.openFiles(a.plan, a.spool)
	if err != nil {
		a.lifecycle.fail(a.plan.Self, err.Error(), err)
		return
	}
	a.spare = leafio.Room(a.plan.Layout)
	defer leafio.Free(a.spare)
	a.collect.open()
	defer a.collect.close()
	if a.plan.method.Distances() {
		t := twoPass{plan: a.plan, codec: a.codec, collect: a.collect, progress: a.progress, signer: a.signer, merge: a.merge}
		err = t.run()
	} else {
		err = a.leaves()
	}
	if err != nil {
		a.failed(err)
		return
	}
	a.progress.spill.Release() // From here the slot has all that another attempt could need.
}

// failed ends the attempt for what merging met, unless that is known.
func (a *accumulator) failed(err error) {
	fault, nf, who := (*leafio.Fault)(nil), (*merge.NonFinite)(nil), (*blame)(nil)
	switch {
	case errors.Is(err, errEnded):
	case !errors.As(err, &fault) && errors.As(err, &nf) && nf.Contributor >= 0:
		a.lifecycle.fail(a.plan.contributors[nf.Contributor], nf.Error(), err)
	case errors.As(err, &who):
		a.lifecycle.fail(who.participant, who.cause.Error(), who.cause)
	default:
		a.lifecycle.failFor(a.plan.Self, wire.Brief(err), err)
	}
}

// leaves merges leaf by leaf as contributions come in.
func (a *accumulator) leaves() error {
	m, err := a.plan.merger(nil)
	if err != nil {
		return err
	}
	var committed, base []byte
	if a.codec.HasBase() && a.plan.method.UsesBase() && !a.plan.stepping() {
		committed = leafio.Room(a.plan.Layout)
		defer leafio.Free(committed)
	}
	for k, leaf := range a.plan.task().All() {
		if a.given.Get(k) {
			continue
		}
		if committed != nil {
			base = committed[:a.plan.Layout.LeafLen(leaf)]
			if err := a.codec.ReadBase(leaf, base); err != nil {
				return err
			}
		}
		var squares []float64
		fill := func(dst []byte) error {
			if err := m.Leaf(leaf, dst, a.collect.sources, base); err != nil {
				return err
			}
			if a.progress.squares != nil && a.plan.isLocal(leaf) {
				squares = a.collect.squares(leaf, base)
			}
			a.collect.release()
			return nil
		}
		d, err := a.merge(leaf, fill)
		if nf, fault := (*merge.NonFinite)(nil), (*leafio.Fault)(nil); errors.As(err, &nf) && !errors.As(err, &fault) && !a.collect.copies {
			// Whom it names was found by looking again, when the own program may have changed what lies in its slot.
			a.collect.copies = true
			d, err = a.merge(leaf, fill)
		}
		if err != nil {
			return err
		}
		for s, v := range squares {
			a.progress.squares[a.plan.contributors[s]] += v
		}
		a.progress.add(a.plan, leaf, d) // only now: what was lent was whole
	}
	return nil
}

// merge collects a leaf, has it merged and stores it.
func (a *accumulator) merge(leaf int, fill func(dst []byte) error) (d merge.Digest, err error) {
	err = a.collect.collect(leaf, func() (err error) {
		d, err = a.store.merge(leaf, a.spare, fill)
		return err
	})
	return d, err
}

// blame is an error for which a participant is to blame.
type blame struct {
	participant int
	cause       error
}

func (b *blame) Error() string { return b.cause.Error() }
