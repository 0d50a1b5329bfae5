package raftnet_test

import (
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/consensus/raftnet"
)

// TestNamed: an SN that names more and more servers, under more and more addresses, is remembered for its newest and no more.
func TestNamed(t *testing.T) {
	var n raftnet.Named
	address := func(id string) string { return raftnet.FormatAddress(id, "host:30303") }
	n.Set("a", []string{address("b"), "nonsense", address("c")})
	if !n.Has("b") || !n.Has("c") || n.Has("a") || n.Has("nonsense") {
		t.Error("what was named is not what it has")
	}
	n.Set("a", []string{address("d")})
	if n.Has("b") || !n.Has("d") {
		t.Error("an SN's older answer counts")
	}
	var many []string
	for i := range 1000 {
		many = append(many, address(fmt.Sprint("peer-", i)))
	}
	n.Set("b", many)
	if !n.Has("peer-255") || n.Has("peer-256") || !n.Has("d") {
		t.Error("not 256 of an answer count")
	}
	for i := range 1000 {
		n.Set(fmt.Sprint("sn-", i), many[i:i+1])
	}
	if n.Has("d") || n.Has("peer-255") || !n.Has("peer-999") {
		t.Error("the answers of any number of SNs are kept")
	}
	if n.Clear(); n.Has("peer-999") {
		t.Error("it forgets nothing")
	}
}
