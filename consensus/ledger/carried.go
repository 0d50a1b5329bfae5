package ledger

import (
	"bytes"
	"encoding/json"
)

const (
	// lookBack is how many records before the ledger's end an order is looked for at most: those that came while its answer was awaited.
	lookBack = 1 << 10
	// maxOrders is how many orders are remembered.
	maxOrders = 1 << 12
)

// Carried is what a record tells of an order that was carried out.
type Carried struct {
	Contract string // the contract concerned, if it was one
	Run      uint64 // its run
}

// Orders remembers the orders that the newest records carry, at most 4,096 of them. It reads each record at most once, however often it
// is asked. The zero value has read nothing. It is not safe for concurrent use.
type Orders struct {
	next   uint64             // how many records lie before the next one to read
	by     map[string]carried // by the order's identity
	oldest []string           // the keys of by, oldest first
}

// carried is an order with the number of its record.
type carried struct {
	Carried
	seq uint64
}

// Find looks for this very order, with the same request, nonce and signature, behind the records that there were when it was
// signed: an order that changed something stands there. Length is the ledger's number of records; read returns whole ones behind the
// first n, none at the end. Records that are more than 1,024 before the end when they could be read are not.
func (x *Orders) Find(o *Order, length uint64, read func(n uint64) ([]byte, error)) (Carried, bool) {
	x.next = max(x.next, length-min(length, lookBack))
	for {
		data, err := read(x.next)
		if err != nil || len(data) == 0 {
			break
		}
		for ; len(data) > 0; x.next++ {
			line, rest, ok := CutLine(data)
			if !ok {
				return Carried{}, false
			}
			x.take(line)
			data = rest
		}
	}
	if len(o.Signature) == 0 {
		return Carried{}, false
	}
	c, ok := x.by[identity(o)]
	return c.Carried, ok && c.seq > o.Witnessed.Length
}

// take remembers the order that a record carries, if it does.
func (x *Orders) take(line []byte) {
	if !bytes.Contains(line, []byte(`"order":{`)) {
		return // as nearly all lines
	}
	r, err := parseHead(line)
	if err != nil {
		return
	}
	var body struct {
		Contract string `json:"contract"`
		Run      uint64 `json:"run"`
		Order    *Order `json:"order"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil || body.Order == nil {
		return
	}
	if x.by == nil {
		x.by = map[string]carried{}
	}
	id := identity(body.Order)
	if _, had := x.by[id]; !had {
		x.oldest = append(x.oldest, id)
	}
	x.by[id] = carried{Carried{body.Contract, body.Run}, r.Seq}
	if len(x.oldest) > maxOrders {
		delete(x.by, x.oldest[0])
		x.oldest = x.oldest[1:]
	}
}

// identity is the hash of what tells an order from all others.
func identity(o *Order) string {
	b, _ := json.Marshal([]any{o.Method, []byte(o.Request), o.Nonce, o.Signature}) // bytes and text always encode
	return Hash(b)
}
