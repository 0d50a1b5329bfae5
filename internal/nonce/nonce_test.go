package nonce_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/nonce"
)

func TestNonces(t *testing.T) {
	now := time.Unix(1000, 0)
	n := nonce.New(func() time.Time { return now })
	a := n.Issue("a")
	if !n.Redeem("a", a) || n.Redeem("a", a) {
		t.Error("a nonce must be good once")
	}
	if b := n.Issue("a"); n.Redeem("b", b) || n.Redeem("a", b) {
		t.Error("a nonce that another caller showed must be used up")
	}
	c := n.Issue("a")
	now = now.Add(time.Minute + time.Second)
	if n.Redeem("a", c) {
		t.Error("a nonce must expire")
	}
	if n.Redeem("a", nil) || n.Redeem("a", make([]byte, 1000)) {
		t.Error("a nonce of another length was taken")
	}
}

func TestNoncesAreBounded(t *testing.T) {
	n := nonce.New(func() time.Time { return time.Unix(1000, 0) })
	other := n.Issue("other")
	for range 4 * nonce.PerCaller {
		n.Issue("greedy")
	}
	if live, order := nonce.Size(n); live > nonce.PerCaller+1 || order > 3*live+64 {
		t.Errorf("%d nonces in %d places", live, order)
	}
	if !n.Redeem("other", other) {
		t.Error("a greedy caller pushed out another's nonce")
	}
	for range 10000 {
		n.Redeem("x", n.Issue("x"))
	}
	if live, order := nonce.Size(n); order > 3*live+64 {
		t.Errorf("used nonces are kept: %d live, %d in order", live, order)
	}
	for i := range nonce.InAll + 100 {
		n.Issue(fmt.Sprint(i))
	}
	if live, _ := nonce.Size(n); live > nonce.InAll {
		t.Errorf("%d nonces live", live)
	}
}

// TestAskersOfOneCaller: a caller passes on what many ask for, and one of them asks without end.
func TestAskersOfOneCaller(t *testing.T) {
	n := nonce.New(func() time.Time { return time.Unix(1000, 0) })
	honest := [][]byte{n.IssueFor("sn", "a"), n.IssueAt("sn", "b", ledger.Head{Length: 7}), n.IssueFor("sn", "b")}
	for range 4 * nonce.PerCaller {
		n.IssueFor("sn", strings.Repeat("greedy", 1<<10))
	}
	if live, order := nonce.Size(n); live > nonce.PerCaller || order > 3*live+64 {
		t.Errorf("%d nonces in %d places", live, order)
	}
	for i, b := range honest {
		if got, ok := n.Take(b); !ok || (got.Head.Length == 7) != (i == 1) {
			t.Errorf("nonce %d of another asker: %+v, %t", i, got, ok)
		}
	}
}
