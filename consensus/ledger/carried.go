package ledger

import (
	"bytes"
	"encoding/json"
)

// Bounds of how far an order is looked for, in records and in bytes: those that came while its answer was awaited.
const (
	lookBack  = 1 << 12
	lookBytes = 8 << 20
)

// Carried is what a record tells of an order that was carried out.
type Carried struct {
	Contract string // the contract concerned, if it was one
	Run      uint64 // its run
}

// Find looks for this very order, with the same request, nonce and signature, behind the records that there were when it was
// signed: an order that changed something stands there. Read returns whole records behind the first n, none at the end.
func Find(o *Order, read func(n uint64) ([]byte, error)) (Carried, bool) {
	for n, size := uint64(0), 0; n < lookBack && size < lookBytes; {
		data, err := read(o.Witnessed.Length + n)
		if err != nil || len(data) == 0 {
			return Carried{}, false
		}
		for size += len(data); len(data) > 0; n++ {
			line, rest, ok := CutLine(data)
			if !ok {
				return Carried{}, false
			}
			if c, ok := carries(line, o); ok {
				return c, true
			}
			data = rest
		}
	}
	return Carried{}, false
}

func carries(line []byte, o *Order) (Carried, bool) {
	mark, err := json.Marshal(o.Signature)
	if err != nil || len(o.Signature) == 0 || !bytes.Contains(line, mark) {
		return Carried{}, false // as nearly all lines
	}
	r, err := parseHead(line)
	if err != nil {
		return Carried{}, false
	}
	var body struct {
		Contract string `json:"contract"`
		Run      uint64 `json:"run"`
		Order    *Order `json:"order"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil || body.Order == nil {
		return Carried{}, false
	}
	same := body.Order.Method == o.Method && bytes.Equal(body.Order.Request, o.Request) && bytes.Equal(body.Order.Nonce, o.Nonce) &&
		bytes.Equal(body.Order.Signature, o.Signature)
	return Carried{Contract: body.Contract, Run: body.Run}, same
}
