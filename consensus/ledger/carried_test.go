package ledger_test

import (
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestOrdersAreReadOnce: each record is read once, whatever is asked for; the newest orders are remembered.
func TestOrdersAreReadOnce(t *testing.T) {
	const many = 5000
	var lines [][]byte
	head := ledger.Head{}
	order := func(i int) *ledger.Order {
		return &ledger.Order{
			Method: "DeleteContract", Request: []byte(`{}`), Nonce: fmt.Appendf(nil, "nonce %d", i), Signature: []byte("signed"),
			Witnessed: ledger.Witness{Length: uint64(i)},
		}
	}
	add := func() {
		line, next, err := ledger.Append(head, 1, ledger.Deleted{Contract: "study", Run: uint64(len(lines)), Order: order(len(lines))})
		if err != nil {
			t.Fatal(err)
		}
		lines, head = append(lines, line), next
	}
	for range many {
		add()
	}
	reads := map[uint64]int{}
	read := func(n uint64) ([]byte, error) {
		if n >= uint64(len(lines)) {
			return nil, nil
		}
		reads[n]++
		return lines[n], nil
	}
	var x ledger.Orders
	find := func(i int) bool {
		c, ok := x.Find(order(i), head.Length, read)
		if ok && c.Run != uint64(i) {
			t.Errorf("order %d led to run %d", i, c.Run)
		}
		return ok
	}
	if find(0) || !find(many-1) || !find(many-1024) || find(many-1025) {
		t.Error("not the newest 1,024 records are known")
	}
	for i := range 4000 {
		add()
		if i%1000 == 999 {
			find(0)
		}
	}
	last := len(lines) - 1
	if !find(last) || !find(last-4095) || find(last-4096) {
		t.Error("not the newest 4,096 orders are known")
	}
	for range 3000 {
		add()
	}
	if last = len(lines) - 1; !find(last) || !find(last-1023) || find(last-1024) {
		t.Error("records that nobody has read were read long after")
	}
	later := order(last)
	later.Witnessed.Length = head.Length
	if _, ok := x.Find(later, head.Length, read); ok {
		t.Error("a record from before an order was signed carries it")
	}
	for n, times := range reads {
		if times > 1 || n < many-1024 {
			t.Fatalf("record %d was read %d times", n, times)
		}
	}
}
