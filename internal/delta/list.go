package delta

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// element is one entry of a list: its encoding without the two numbers that change in each round, and these.
type element struct {
	body   []byte
	sum    uint32 // CRC-32C of body
	counts [2]uint64
}

func newElement(body []byte, first, second uint64) element {
	return element{body: body, sum: crc32.Checksum(body, castagnoli), counts: [2]uint64{first, second}}
}

// sameBody reports whether an element can be made from another one by its counts alone.
func (e element) sameBody(o element) bool { return e.sum == o.sum && bytes.Equal(e.body, o.body) }

// appendSum appends what the checksum of a view has of an element.
func appendSum(b []byte, sum uint32, counts [2]uint64) []byte {
	b = binary.LittleEndian.AppendUint32(b, sum)
	b = binary.LittleEndian.AppendUint64(b, counts[0])
	return binary.LittleEndian.AppendUint64(b, counts[1])
}

// appendList appends what the checksum of a view has of a list.
func appendList[E any](b []byte, list []E, of func(E) (uint32, [2]uint64)) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, e := range list {
		sum, counts := of(e)
		b = appendSum(b, sum, counts)
	}
	return b
}

// runs says how one list is made from another one.
func runs(from, to []element) []*swarmv1.ViewRun {
	var out []*swarmv1.ViewRun
	next := 0 // where the run before ends in from
	find := finder(from)
	for _, e := range to {
		last := tail(out)
		i, found := next, next < len(from) && from[next].sameBody(e)
		if !found {
			i, found = find(e)
		}
		switch {
		case !found && last == nil:
			out = append(out, put(&swarmv1.ViewRun{}, e))
		case !found:
			put(last, e)
		case last != nil && i == next && extends(last, from[i], e):
			last.Count++
			next = i + 1
		default:
			out = append(out, begin(i, from[i], e))
			next = i + 1
		}
	}
	return out
}

func tail(list []*swarmv1.ViewRun) *swarmv1.ViewRun {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// finder returns what finds an element of a list by its body; the index of the list is made when it is first asked for.
func finder(list []element) func(element) (int, bool) {
	var known map[uint32]int
	return func(e element) (int, bool) {
		if known == nil {
			known = make(map[uint32]int, len(list))
			for i, x := range list {
				known[x.sum] = i
			}
		}
		i, ok := known[e.sum]
		return i, ok && list[i].sameBody(e)
	}
}

func put(r *swarmv1.ViewRun, e element) *swarmv1.ViewRun {
	r.Put, r.Counts = append(r.Put, e.body), append(r.Counts, e.counts[0], e.counts[1])
	return r
}

// begin returns the run that makes one element from the one at an index.
func begin(at int, old, e element) *swarmv1.ViewRun {
	r := &swarmv1.ViewRun{From: uint32(at), Count: 1, Plus: e.counts[0] - old.counts[0]} //nolint:gosec // an index of a slice
	if e.counts[1] != old.counts[1] {
		r.Set = &e.counts[1]
	}
	return r
}

// extends reports whether a run that ends before the old element makes the new one from it too.
func extends(r *swarmv1.ViewRun, old, e element) bool {
	if len(r.Put) > 0 || e.counts[0]-old.counts[0] != r.Plus {
		return false
	}
	if r.Set == nil {
		return e.counts[1] == old.counts[1]
	}
	return e.counts[1] == *r.Set
}
