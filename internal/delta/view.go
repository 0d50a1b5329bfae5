package delta

import (
	"fmt"
	"hash/crc32"
	"slices"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// view is a contract's view in the parts of which differences are made.
type view struct {
	head      []byte
	sessions  []element
	planned   []element // of the plan, or of the last one
	committed []element
}

var encoding = proto.MarshalOptions{Deterministic: true}

// split takes a view apart. While it runs, fields of v are unset; then they are as they were. Where v has no plan, or no
// committed round, the lists are those of the view before, nil if there is none.
func split(v *swarmv1.ContractView, before *view) (*view, error) {
	out := &view{}
	if before != nil {
		out.planned, out.committed = before.planned, before.committed
	}
	var err error
	if out.sessions, err = splitSessions(v.Sessions); err != nil {
		return nil, err
	}
	if v.Plan != nil {
		if out.planned, err = splitPlanned(v.Plan.Participants); err != nil {
			return nil, err
		}
	}
	if v.Committed != nil {
		out.committed = make([]element, 0, len(v.Committed.Participants))
		for _, name := range v.Committed.Participants {
			out.committed = append(out.committed, newElement([]byte(name), 0, 0))
		}
	}
	out.head, err = head(v)
	return out, err
}

func splitSessions(list []*swarmv1.Session) ([]element, error) {
	out := make([]element, 0, len(list))
	for _, x := range list {
		seq, round := x.LastSeq, x.LastRound
		x.LastSeq, x.LastRound = 0, 0
		body, err := encoding.Marshal(x)
		x.LastSeq, x.LastRound = seq, round
		if err != nil {
			return nil, fmt.Errorf("encode session %q: %w", x.Id, err)
		}
		out = append(out, newElement(body, seq, round))
	}
	return out, nil
}

func splitPlanned(list []*swarmv1.Participant) ([]element, error) {
	out := make([]element, 0, len(list))
	for _, x := range list {
		seq := x.Seq
		x.Seq = 0
		body, err := encoding.Marshal(x)
		x.Seq = seq
		if err != nil {
			return nil, fmt.Errorf("encode participant %q: %w", x.Node, err)
		}
		out = append(out, newElement(body, seq, 0))
	}
	return out, nil
}

// head encodes what of a view is in no list.
func head(v *swarmv1.ContractView) ([]byte, error) {
	index, sessions := v.Index, v.Sessions
	v.Index, v.Sessions = 0, nil
	defer func() { v.Index, v.Sessions = index, sessions }()
	if p := v.Plan; p != nil {
		list := p.Participants
		p.Participants = nil
		defer func() { p.Participants = list }()
	}
	if c := v.Committed; c != nil {
		list := c.Participants
		c.Participants = nil
		defer func() { c.Participants = list }()
	}
	out, err := encoding.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode view of contract %q: %w", v.Name, err)
	}
	return out, nil
}

// equal reports whether two views are the same, but for the index.
func (v *view) equal(o *view) bool {
	same := func(a, b element) bool { return a.counts == b.counts && a.sameBody(b) }
	return slices.Equal(v.head, o.head) && slices.EqualFunc(v.sessions, o.sessions, same) &&
		slices.EqualFunc(v.planned, o.planned, same) && slices.EqualFunc(v.committed, o.committed, same)
}

// checksum is the CRC-32C of: the CRC-32C of the head; then, of sessions, planned and committed in this order, the number of
// elements (64 bits), and of each element the CRC-32C of its body and its counts (64 bits each). All are little-endian.
func (v *view) checksum() uint32 {
	of := func(e element) (uint32, [2]uint64) { return e.sum, e.counts }
	return checksum(v.head, func(b []byte) []byte {
		return appendList(appendList(appendList(b, v.sessions, of), v.planned, of), v.committed, of)
	})
}

func checksum(head []byte, lists func([]byte) []byte) uint32 {
	sum := crc32.Checksum(head, castagnoli)
	return crc32.Checksum(lists([]byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)}), castagnoli)
}

// update encodes how a view is made from another one, which has a revision; nil and 0: from nothing.
func (v *view) update(from *view, base, revision uint64) ([]byte, error) {
	if from == nil {
		from = &view{}
	}
	out, err := encoding.Marshal(&swarmv1.ViewUpdate{
		Base: base, Revision: revision, View: v.head, Checksum: v.checksum(),
		Sessions: runs(from.sessions, v.sessions), Planned: runs(from.planned, v.planned), Committed: runs(from.committed, v.committed),
	})
	if err != nil {
		return nil, fmt.Errorf("encode difference of views: %w", err)
	}
	return out, nil
}
