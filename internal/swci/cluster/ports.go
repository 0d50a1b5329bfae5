package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

// Ports are chosen below the range from which Linux takes the ports of outgoing connections (32768 and up), so that no
// connection made between choosing and binding can take one.
const (
	firstPort = 20000
	lastPort  = 32700
)

// defaultPorts are those of p2p, API and file server where every node has a network of its own.
var defaultPorts = [3]int{30303, 30304, 30305}

// ports hands out ports of this machine that are free on all loopback addresses in use. It remembers what it gave.
type ports struct{ given map[int]bool }

// take returns a free port on host.
func (p *ports) take(host string) (int, error) {
	for range 2000 {
		n := firstPort + rand.IntN(lastPort-firstPort)
		if p.given[n] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("probe port: %w", err)
		}
		p.given[n] = true
		return n, nil
	}
	return 0, exit.New(exit.Failed, "is the loopback interface up?", "no free port between %d and %d on %s", firstPort, lastPort, host)
}
