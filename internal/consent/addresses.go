package consent

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// addresses are those that members of an epoch have of their own, as this host has told them: INDEX=IP each, with spaces between.
type addresses string

// maxAddress is how long one is at most, in bytes, with its index.
const maxAddress = 64

func (x addresses) check() error {
	if len(x) > task.MaxMembers*maxAddress {
		return errors.New("its addresses are out of bounds")
	}
	for one := range strings.FieldsSeq(string(x)) {
		index, ip, _ := strings.Cut(one, "=")
		_, err := strconv.ParseUint(index, 10, 32)
		if _, bad := netip.ParseAddr(ip); err != nil || bad != nil {
			return errors.New("its addresses are out of bounds")
		}
	}
	return nil
}

// of is a member's; empty: none was told.
func (x addresses) of(i uint32) string {
	want := strconv.FormatUint(uint64(i), 10)
	for one := range strings.FieldsSeq(string(x)) {
		if index, ip, _ := strings.Cut(one, "="); index == want {
			return ip
		}
	}
	return ""
}

// with returns them with one more.
func (x addresses) with(i uint32, ip string) addresses {
	return addresses(strings.TrimSpace(fmt.Sprintf("%s %d=%s", x, i, ip)))
}

// AddressOnce has the journal keep the address that a member has of its own before it is told, and returns the one that is kept: who has signed one
// in an epoch signs no other one, also after a restart. With no address it only returns that. Empty: none is kept, as this host has not begun the member's
// part, or has ended it.
func (g *Guard) AddressOnce(p task.Part, ip string) (kept string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, known := g.cfg.Journal.Find(p.Assignment)
	if !known || e.Epoch != p.Epoch || !e.running() || p.Member >= task.MaxMembers {
		return "", nil
	}
	if kept := e.Addresses.of(p.Member); kept != "" || ip == "" {
		return kept, nil
	}
	e.Addresses = e.Addresses.with(p.Member, ip)
	if err := g.cfg.Journal.put(e, time.Now().UnixMilli()); err != nil {
		return "", err
	}
	return ip, nil
}
