package start

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/launch/component"
)

// MetricsLocal is the variable that tells swarmd in a component's container that its metrics are published on loopback of the host.
const MetricsLocal = "SWARM_METRICS_LOCAL"

// Metrics is HOST:PORT where a node serves its metrics; "": nowhere.
type Metrics string

// UnmarshalText reads an address to listen on.
func (m *Metrics) UnmarshalText(text []byte) error {
	if _, _, err := address.ParseListen(string(text)); err != nil {
		return err
	}
	*m = Metrics(text)
	return nil
}

// Open reports whether others than this host's users may reach them.
func (m Metrics) Open() bool {
	host, _, _ := net.SplitHostPort(string(m))
	ip := net.ParseIP(host)
	return m != "" && host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// publish has a container serve its metrics where this host is to have them.
func (m Metrics) publish(s *component.Spec) error {
	if m == "" {
		return nil
	}
	host, number, err := address.ParseListen(string(m))
	if err != nil {
		return fmt.Errorf("--metrics %s: %w", m, err)
	}
	if s.Network == "host" {
		s.Args = append(s.Args, "--metrics="+string(m))
		return nil
	}
	port := strconv.Itoa(number)
	publish := port + ":" + port
	switch {
	case host == "localhost":
		publish = "127.0.0.1:" + publish
	case host != "" && net.ParseIP(host) == nil:
		return fmt.Errorf("--metrics %s: a container's port is published at an address: give one of this host's in place of %s", m, host)
	case host != "":
		publish = net.JoinHostPort(host, port) + ":" + port
	}
	s.Publish = append(slices.Clip(s.Publish), publish)
	s.Args = append(s.Args, "--metrics=:"+port)
	if !m.Open() {
		s.Vars = append(slices.Clip(s.Vars), MetricsLocal+"=1")
	}
	return nil
}
