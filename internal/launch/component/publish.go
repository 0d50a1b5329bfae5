package component

import (
	"fmt"
	"strconv"

	"github.com/docker/go-connections/nat"
)

// publish makes port bindings of the user's -p and of the component's own ports, which are published only if local says that
// the other nodes reach this host by the name that they know. What the user says wins: a port of the component is left alone
// if -p publishes it already or takes its number on the host.
func publish(explicit []string, own []Port, local bool) (nat.PortSet, nat.PortMap, error) {
	exposed, bindings := nat.PortSet{}, nat.PortMap{}
	taken := map[string]bool{} // proto and number on the host
	for _, p := range explicit {
		mappings, err := nat.ParsePortSpec(p)
		if err != nil {
			return nil, nil, fmt.Errorf("-p %s: %w: want [[ip:]host-port:]container-port[/udp]", p, err)
		}
		for _, m := range mappings {
			exposed[m.Port] = struct{}{}
			bindings[m.Port] = append(bindings[m.Port], m.Binding)
			taken[m.Port.Proto()+m.Binding.HostPort] = true
		}
	}
	for _, p := range own {
		proto := p.Proto
		if proto == "" {
			proto = "tcp"
		}
		number := strconv.Itoa(p.Number)
		port, err := nat.NewPort(proto, number)
		if err != nil {
			return nil, nil, fmt.Errorf("publish port %s/%s: %w", number, proto, err)
		}
		exposed[port] = struct{}{}
		if _, said := bindings[port]; local && !said && !taken[proto+number] {
			bindings[port] = []nat.PortBinding{{HostPort: number}}
		}
	}
	return exposed, bindings, nil
}
