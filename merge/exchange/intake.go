package exchange

import "time"

// piece is a leaf of a contributor in a buffer of its ring.
type piece struct {
	leaf int
	buf  []byte
}

// intake reads the leaves of one contributor into its ring. When the ring stays full, because the merge waits for somebody
// else, or the attempt has failed, it reads on into the stash: what a peer has sent should not have to come again.
type intake struct {
	*run
	i     int
	in    *inbound
	made  int  // buffers of the ring
	stuck bool // the ring was full for long, and is still
	spare []byte
	timer *time.Timer
}

// all reads until every leaf has come that this attempt needs of the contributor.
func (t *intake) all() error {
	defer func() {
		if t.spare != nil {
			putLeaf(t.spare)
		}
	}()
	for k, leaf := range t.task().All() {
		if t.in.given.Get(k) {
			continue
		}
		if err := t.one(leaf); err != nil {
			return err
		}
	}
	return nil
}

func (t *intake) one(leaf int) error {
	buf, err := t.buffer()
	if err != nil {
		return err
	}
	stashed := buf == nil
	if stashed {
		if t.spare == nil {
			t.spare = getLeaf(t.Layout)
		}
		buf = t.spare
	}
	if err := t.slice(t.i, t.in.c, leaf, buf); err != nil {
		return err
	}
	if stashed {
		t.does(&t.in.stashing)
		err = t.progress.stash.Put(t.i, leaf, buf[:t.Layout.LeafLen(leaf)])
		t.in.stashing.rests()
		if err == nil {
			select {
			case t.in.stashed <- struct{}{}:
			default: // It is to look anyway.
			}
			return nil
		}
		// There is no room: as if there were no stash, but with this leaf in hand.
		if t.spare, err = t.free(); err != nil {
			return err
		}
	}
	t.in.full <- piece{leaf, buf} // Never blocks: there are not more buffers than places.
	return nil
}

// buffer returns one of the ring. It returns none when the next leaf should go to the stash.
func (t *intake) buffer() ([]byte, error) {
	if t.ctx.Err() == nil {
		if t.made < cap(t.in.full) {
			t.made++
			return getLeaf(t.Layout), nil
		}
		select {
		case buf := <-t.in.free:
			t.stuck = false
			return buf, nil
		default:
		}
		if buf := t.wait(); buf != nil {
			return buf, nil
		}
	}
	if t.progress.stash.Ensure() == nil {
		return nil, nil
	}
	return t.free()
}

// wait gives the merge a short while to go on, once; then the contributor is behind one that stalls.
func (t *intake) wait() []byte {
	if t.stuck {
		return nil
	}
	if t.timer == nil {
		t.timer = time.NewTimer(t.hub.cfg.Patience)
	} else {
		t.timer.Reset(t.hub.cfg.Patience)
	}
	defer t.timer.Stop()
	select {
	case buf := <-t.in.free:
		return buf
	case <-t.timer.C:
		t.stuck = true
	case <-t.ctx.Done():
	}
	return nil
}

// free waits for a buffer of the ring; nothing is owed then, and no deadline runs.
func (t *intake) free() ([]byte, error) {
	select {
	case buf := <-t.in.free:
		return buf, nil
	case <-t.ctx.Done():
		return nil, t.ctx.Err()
	}
}

// keepRings stashes what came in but was not merged, after an attempt that failed; nobody else touches the rings any more.
func (r *run) keepRings() {
	for i, in := range r.inbound {
		if in == nil {
			continue
		}
		if in.next.buf != nil {
			r.keepPiece(i, in.next)
		}
		for len(in.full) > 0 {
			r.keepPiece(i, <-in.full)
		}
	}
}

func (r *run) keepPiece(i int, p piece) {
	if !r.progress.has(p.leaf) && !r.progress.stash.Has(i, p.leaf) {
		_ = r.progress.stash.Put(i, p.leaf, p.buf[:r.Layout.LeafLen(p.leaf)]) // Else it is sent again.
	}
}
