package engine

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/docker/docker/api/types/network"
)

// Endpoint is a container's place in its network ("": the engine's default) with an address, as engines take it; "": the engine's choice.
// option is the one that names the address, for errors.
func Endpoint(of, ip, option string) (*network.NetworkingConfig, error) {
	if ip == "" {
		return &network.NetworkingConfig{}, nil
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: want an IP address", option, ip)
	}
	if slices.Contains([]string{"", "default", "bridge", "host", "none"}, of) {
		return nil, fmt.Errorf("--%s %s: only a network that you have made gives addresses: name it with --network (docker network create --subnet …)", option, ip)
	}
	ipam := &network.EndpointIPAMConfig{IPv4Address: ip}
	if addr.Is6() {
		ipam = &network.EndpointIPAMConfig{IPv6Address: ip}
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{of: {IPAMConfig: ipam}}}, nil
}
