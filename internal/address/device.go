package address

import (
	"net"
	"net/netip"
)

// Device is the interface of this host that has an address; empty: none.
func Device(a netip.Addr) string {
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
