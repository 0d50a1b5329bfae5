package delta

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

const (
	// maxView bounds a view, and each update, in bytes when it is decompressed.
	maxView = 16 << 20
	// perElement is what an element of a list counts for besides its encoding.
	perElement = 64
	// maxUpdates bounds how many updates one message has.
	maxUpdates = 1024
)

// ErrMisfit is in the chain of errors about updates that do not belong to the view that they came for, or are malformed:
// the whole view is to be asked for.
var ErrMisfit = errors.New("the update does not fit")

// Decoder rebuilds the views of one stream. The zero value has none and takes the whole view first. It is not safe for
// concurrent use.
type Decoder struct {
	revision  uint64
	head      []byte
	sessions  []item[*swarmv1.Session]
	planned   []item[*swarmv1.Participant]
	committed []item[string]
}

// item is an element with what it says.
type item[M any] struct {
	sum    uint32
	size   int
	counts [2]uint64
	msg    M
}

// View returns the view that a message of the stream stands for. A message that is not packed is its own. Views share memory
// with each other: they must not be modified. After an error, the decoder has no view.
func (d *Decoder) View(msg *swarmv1.ContractView) (*swarmv1.ContractView, error) {
	p := msg.GetPacked()
	if p == nil {
		return msg, nil
	}
	out, err := d.apply(p)
	if err != nil {
		*d = Decoder{}
		return nil, fmt.Errorf("rebuild view: %w", err)
	}
	out.Index = msg.GetIndex()
	return out, nil
}

func (d *Decoder) apply(p *swarmv1.PackedView) (*swarmv1.ContractView, error) {
	updates := p.GetUpdates()
	if len(updates) > maxUpdates || p.GetInflated() != 0 && len(updates) != 1 {
		return nil, fmt.Errorf("%w: %d of them", ErrMisfit, len(updates))
	}
	if p.GetInflated() != 0 {
		whole, err := inflate(updates[0], p.GetInflated())
		if err != nil {
			return nil, err
		}
		updates = [][]byte{whole}
	}
	for _, raw := range updates {
		if err := d.update(raw); err != nil {
			return nil, err
		}
	}
	if d.revision == 0 || d.revision != p.GetRevision() {
		return nil, fmt.Errorf("%w: revision %d is at hand, %d was meant", ErrMisfit, d.revision, p.GetRevision())
	}
	return d.view()
}

// inflate decompresses an update that says how long it will be.
func inflate(packed []byte, size uint32) ([]byte, error) {
	if size > maxView {
		return nil, fmt.Errorf("%w: it would have %d bytes, at most %d", ErrMisfit, size, maxView)
	}
	r := flate.NewReader(bytes.NewReader(packed))
	defer r.Close()
	var out bytes.Buffer // It grows with what comes, whatever was announced.
	if _, err := io.Copy(&out, io.LimitReader(r, int64(size)+1)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMisfit, err)
	}
	if out.Len() != int(size) {
		return nil, fmt.Errorf("%w: it has another length than the %d bytes announced", ErrMisfit, size)
	}
	return out.Bytes(), nil
}

func (d *Decoder) update(raw []byte) error {
	u := &swarmv1.ViewUpdate{}
	if err := proto.Unmarshal(raw, u); err != nil {
		return fmt.Errorf("%w: %w", ErrMisfit, err)
	}
	base := d
	switch u.GetBase() {
	case 0:
		base = &Decoder{}
	case d.revision:
	default:
		return fmt.Errorf("%w: it is for revision %d, revision %d is at hand", ErrMisfit, u.GetBase(), d.revision)
	}
	b, next := budget(maxView-len(u.GetView())), Decoder{revision: u.GetRevision(), head: u.GetView()}
	var errs [3]error
	next.sessions, errs[0] = rebuild(&b, base.sessions, u.GetSessions(), newSession, advanceSessions)
	next.planned, errs[1] = rebuild(&b, base.planned, u.GetPlanned(), newParticipant, advanceParticipants)
	next.committed, errs[2] = rebuild(&b, base.committed, u.GetCommitted(), newName, nil)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if next.checksum() != u.GetChecksum() {
		return fmt.Errorf("%w: the checksum of revision %d is another one", ErrMisfit, next.revision)
	}
	*d = next
	return nil
}

func (d *Decoder) checksum() uint32 {
	return checksum(d.head, func(b []byte) []byte {
		return appendItems(appendItems(appendItems(b, d.sessions), d.planned), d.committed)
	})
}

func appendItems[M any](b []byte, list []item[M]) []byte {
	return appendList(b, list, func(e item[M]) (uint32, [2]uint64) { return e.sum, e.counts })
}

// view puts the view together.
func (d *Decoder) view() (*swarmv1.ContractView, error) {
	out := &swarmv1.ContractView{}
	if err := proto.Unmarshal(d.head, out); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMisfit, err)
	}
	out.Packed, out.Sessions = nil, messages(d.sessions)
	if out.Plan != nil {
		out.Plan.Participants = messages(d.planned)
	}
	if out.Committed != nil {
		out.Committed.Participants = messages(d.committed)
	}
	return out, nil
}

func messages[M any](list []item[M]) []M {
	if len(list) == 0 {
		return nil
	}
	out := make([]M, len(list))
	for i, e := range list {
		out[i] = e.msg
	}
	return out
}

// budget is how many bytes a view may still take.
type budget int

func (b *budget) take(n int) error {
	if n > int(*b) {
		return fmt.Errorf("%w: its view would have more than %d bytes", ErrMisfit, maxView)
	}
	*b -= budget(n)
	return nil
}

// rebuild makes a list from its base. Decode reads a new element; advance replaces the messages of copied elements whose
// counts have changed.
func rebuild[M any](b *budget, base []item[M], list []*swarmv1.ViewRun, decode func([]byte, [2]uint64) (M, error), advance func([]item[M])) ([]item[M], error) {
	n, err := length(b, len(base), list)
	if err != nil {
		return nil, err
	}
	out := make([]item[M], 0, n)
	for _, r := range list {
		at := len(out)
		out = append(out, base[r.GetFrom():r.GetFrom()+r.GetCount()]...)
		if err := follow(b, out[at:], r, advance); err != nil {
			return nil, err
		}
		for i, body := range r.GetPut() {
			if err := b.take(len(body)); err != nil {
				return nil, err
			}
			counts := [2]uint64(r.GetCounts()[2*i:])
			msg, err := decode(body, counts)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrMisfit, err)
			}
			out = append(out, item[M]{sum: crc32.Checksum(body, castagnoli), size: len(body), counts: counts, msg: msg})
		}
	}
	return out, nil
}

// length checks the runs of a list against its base and returns how many elements they make.
func length(b *budget, base int, list []*swarmv1.ViewRun) (n int, err error) {
	for _, r := range list {
		if uint64(r.GetFrom())+uint64(r.GetCount()) > uint64(base) || len(r.GetCounts()) != 2*len(r.GetPut()) { //nolint:gosec // a length
			return 0, fmt.Errorf("%w: a run of it is not within the view", ErrMisfit)
		}
		more := int(r.GetCount()) + len(r.GetPut())
		if err := b.take(more * perElement); err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// follow gives copied elements the counts of their run.
func follow[M any](b *budget, copied []item[M], r *swarmv1.ViewRun, advance func([]item[M])) error {
	changed := false
	for i := range copied {
		e := &copied[i]
		if err := b.take(e.size); err != nil {
			return err
		}
		old := e.counts
		if e.counts[0] += r.GetPlus(); r.Set != nil {
			e.counts[1] = r.GetSet()
		}
		changed = changed || e.counts != old
	}
	if changed && advance != nil {
		advance(copied)
	}
	return nil
}
