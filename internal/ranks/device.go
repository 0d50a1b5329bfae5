package ranks

import (
	"net/netip"

	"github.com/swarmd/swarmd/internal/address"
)

// deviceOf is the interface of this host that has an address; empty: none, or the address is a name.
func deviceOf(of string) string {
	a, err := netip.ParseAddr(of)
	if err != nil {
		return ""
	}
	return address.Device(a)
}
