package start_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// TestMetricsOfContainers: a container serves its metrics on its own network, and the engine publishes them where the node was told to; in
// the host's network it serves them there itself.
func TestMetricsOfContainers(t *testing.T) {
	for _, c := range []struct {
		at              start.Metrics
		network         string
		publish         string
		arg, wrong      string
		beyondThisHosts bool
	}{
		{at: "127.0.0.1:9464", publish: "127.0.0.1:9464:9464", arg: "--metrics=:9464"},
		{at: "localhost:9464", publish: "127.0.0.1:9464:9464", arg: "--metrics=:9464"},
		{at: "[::1]:9464", publish: "[::1]:9464:9464", arg: "--metrics=:9464"},
		{at: ":9464", publish: "9464:9464", arg: "--metrics=:9464", beyondThisHosts: true},
		{at: "10.0.0.1:9464", publish: "10.0.0.1:9464:9464", arg: "--metrics=:9464", beyondThisHosts: true},
		{at: "127.0.0.1:9464", network: "host", arg: "--metrics=127.0.0.1:9464"},
		{at: "sn.example:9464", wrong: "--metrics sn.example:9464: a container's port is published at an address", beyondThisHosts: true},
		{at: "9464", wrong: "--metrics 9464: want HOST:PORT", beyondThisHosts: true},
		{at: ""},
	} {
		o := start.SN{Node: start.Node{Name: "sn-1", Host: "10.0.0.1", Metrics: c.at, Container: component.Options{Network: c.network, Publish: []string{"1:1"}}, SocketPath: "/agent.sock"}, SentinelHost: "10.0.0.1"}
		s, err := o.Component(start.Env{Getenv: func(string) string { return "" }})
		if c.wrong != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %q", c.at, err, c.wrong)
			}
		} else if err != nil {
			t.Errorf("%s: %v", c.at, err)
		}
		want := []string{"1:1"}
		if c.publish != "" {
			want = append(want, c.publish)
		}
		if c.wrong == "" && (!slices.Equal(s.Publish, want) || c.arg != "" != slices.Contains(s.Args, c.arg)) {
			t.Errorf("%s: published %q, arguments %q", c.at, s.Publish, s.Args)
		}
		if local := slices.Contains(s.Vars, "SWARM_METRICS_LOCAL=1"); c.wrong == "" && local != (c.publish != "" && !c.beyondThisHosts) {
			t.Errorf("%s: variables %q", c.at, s.Vars)
		}
		if c.at.Open() != c.beyondThisHosts {
			t.Errorf("%s: open to others: %v", c.at, c.at.Open())
		}
	}
	server := start.SpireServer{Metrics: "127.0.0.1:9464"}
	s, err := server.Component(start.Env{Getenv: func(string) string { return "" }})
	if err != nil || !slices.Equal(s.Publish, []string{"127.0.0.1:9464:9464"}) || !slices.Contains(s.Args, "--metrics=:9464") || !slices.Contains(s.Vars, "SWARM_METRICS_LOCAL=1") {
		t.Errorf("a SPIRE server: %v, published %q, arguments %q, variables %q", err, s.Publish, s.Args, s.Vars)
	}
	var m start.Metrics
	if err := m.UnmarshalText([]byte("127.0.0.1:70000")); err == nil || m != "" {
		t.Error(err, m)
	}
}
