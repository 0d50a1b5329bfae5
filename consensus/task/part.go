package task

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
)

// PartStopped ends what a node says last that was stopped before its part was done.
const PartStopped = "was stopped before that was done"

// Part names a host's part in an epoch of an assignment: its member. Whatever a host starts for it is told, and ends when nobody wants it.
type Part struct {
	Host       string
	Assignment string // ID
	Epoch      uint32
	Member     uint32 // index
}

// String is the part in one word, as UnmarshalText reads it.
func (p Part) String() string {
	return fmt.Sprintf("%s/%s/%d/%d", p.Host, p.Assignment, p.Epoch, p.Member)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Part) UnmarshalText(text []byte) error {
	words := strings.Split(string(text), "/")
	if len(words) != 4 || !naming.ValidNode(words[0]) || !ValidID(words[1]) {
		return fmt.Errorf("%.160q is no part of an assignment: want HOST/ASSIGNMENT/EPOCH/MEMBER", text)
	}
	epoch, err := strconv.ParseUint(words[2], 10, 32)
	member, err2 := strconv.ParseUint(words[3], 10, 32)
	if err != nil || err2 != nil || epoch == 0 {
		return fmt.Errorf("%.160q is no part of an assignment: epoch and member are numbers", text)
	}
	*p = Part{Host: words[0], Assignment: words[1], Epoch: uint32(epoch), Member: uint32(member)}
	return nil
}

// Wanted reports whether something of a part may run: its epoch is the one that is carried out, and the member has not ended.
func Wanted(b *Board, p Part) bool {
	a := b.Whole().Assignments[p.Assignment]
	if a == nil || a.Epoch != p.Epoch || uint64(p.Member) >= uint64(len(a.Members)) || a.Phase != Preparing && a.Phase != Running {
		return false
	}
	m := a.Members[p.Member]
	return m.Node == p.Host && !m.State.ended()
}
