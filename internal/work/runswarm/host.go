package runswarm

import (
	"cmp"
	"fmt"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// Host is what SLs have of the host that starts them.
type Host struct {
	Profile *taskfile.Profile
	Name    string     // of the SWOP in the swarm; the SLs are named by it
	Node    start.Node // of the SWOP: its address, and the identity of SLs of which the profile says none
	SNs     []string   // HOST:PORT of APIs
	// SessionTimeout is that of SLs of which the profile says none.
	SessionTimeout start.Limit
}

// node returns what an SL has by the profile: its name in the swarm, its address, its identity, and what others reach it by.
func (h *Host) node(n *taskfile.Node) start.Node {
	o := start.Node{
		Name: h.name(n.Index), Host: h.Node.Host, TrustDomains: h.Node.TrustDomains, SPIFFEPrefix: h.Node.SPIFFEPrefix, SwarmID: h.Node.SwarmID,
	}
	o.Roles = h.Node.Roles
	return o
}

// identify gives an SL the identity that the profile names, by its paths on this host; without one the SWOP's own source of identities is
// asked for one.
func (h *Host) identify(o *start.Node, n *taskfile.Node) error {
	if len(n.Identity) == 0 {
		if h.Node.Cert != "" {
			return fmt.Errorf("node %d of the profile has no identity, and a SWOP's certificate is not lent to SLs: name the SL's KEY and CERT in identity", n.Index)
		}
		o.Identity, o.SocketPath = h.Node.Identity, h.Node.SocketPath
		return nil
	}
	if err := o.TakeIdentity(n.Identity); err != nil {
		return fmt.Errorf("node %d of the profile: %w", n.Index, err)
	}
	return nil
}

// port is that of an SL's file server; 0: that of its service. Those of one host can't all have the same one, as containers can.
func port(n *taskfile.Node) start.Port {
	if n.SLFSService != "" && n.SLPort == 0 {
		return 0
	}
	return start.Port(cmp.Or(n.SLPort, int(start.FSPort)+n.Index))
}
