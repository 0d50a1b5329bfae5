package bench

import (
	"errors"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/netns"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	minLink = 1_000_000       // bits per second
	maxLink = 100_000_000_000 // bits per second
)

// ParseLink reads the speed of a link as tc writes it: 200mbit, 1gbit, 512kbit. The result is in bits per second.
func ParseLink(s string) (int64, error) {
	for _, u := range []struct {
		suffix string
		bits   float64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}} {
		number, ok := strings.CutSuffix(strings.ToLower(s), u.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err == nil && f*u.bits >= minLink && f*u.bits <= maxLink {
			return int64(f * u.bits), nil
		}
	}
	return 0, exit.New(exit.Usage, "write it like 200mbit or 1gbit; at least 1mbit, at most 100gbit", "link %q is not valid", s)
}

// network is the network of a bench whose nodes have network namespaces of their own.
type network struct {
	net        *netns.Net
	link       int64  // bits per second of each SL in each direction; 0: unbounded
	congestion string // the congestion control of the nodes; empty: there is none yet
}

// cable makes the network and says where nodes go. The caller closes it after the swarm.
func cable(link int64) (*network, error) {
	if err := netns.Available(); err != nil {
		return nil, exit.New(exit.Failed, "run it as root, or leave out --netns and --link", "no network namespaces: %v", err)
	}
	n, err := netns.New()
	if err != nil {
		return nil, err
	}
	return &network{net: n, link: link}, nil
}

// place gives each node a host. SNs carry no models: their links are not bounded, so that only the merge is measured.
func (w *network) place(name string) (*netns.Host, error) {
	h, err := w.net.Add()
	if err != nil {
		return nil, err
	}
	w.congestion = h.Congestion
	if w.link == 0 || !strings.HasPrefix(name, cluster.SLName(0)[:3]) {
		return h, nil
	}
	return h, h.Limit(w.link)
}

// note says what is not as on most hosts; empty: nothing.
func (w *network) note() string {
	if w.congestion == netns.Cubic {
		return ""
	}
	return "the nodes' connections use " + w.congestion + ": this machine allows no " + netns.Cubic +
		" in network namespaces (sysctl net.ipv4.tcp_allowed_congestion_control), so compare the figures only with such"
}

func (w *network) close(err error) error { return errors.Join(err, w.net.Close()) }
