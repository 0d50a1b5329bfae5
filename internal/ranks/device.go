package ranks

import (
	"net"
	"net/netip"
)

// deviceOf is the interface of this host that has an address; empty: none, or the address is a name.
func deviceOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, dev := range all {
		addresses, err := dev.Addrs()
		if err != nil {
			continue
		}
		for _, has := range addresses {
			if n, is := has.(*net.IPNet); is && n.IP.Equal(a.AsSlice()) {
				return dev.Name
			}
		}
	}
	return ""
}
