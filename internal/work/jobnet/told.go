package jobnet

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/work"
)

// Told are the addresses of all members in a network that their hosts share.
func Told(world []task.Site) (all []netip.Addr, err error) {
	hosts := map[netip.Addr]string{}
	for _, p := range world {
		a, err := netip.ParseAddr(p.Own)
		if err != nil {
			return nil, fmt.Errorf("host %s has not told which address its member has in the job's network: bring its SWOP to this version", p.Node)
		}
		if other, taken := hosts[a]; taken {
			return nil, fmt.Errorf("hosts %s and %s both tell the address %s of a member: they have networks of one name, and not one network", other, p.Node, a)
		}
		hosts[a] = p.Node
		all = append(all, a)
	}
	return all, nil
}

// Joining is the error of an engine that can't put a container into a network that hosts share, with what can be done about it.
func Joining(err error) error {
	if err == nil {
		return nil
	}
	switch said := err.Error(); {
	case strings.Contains(said, "ddress already in use"):
		return &work.Passing{Words: "another container has taken the address of this member, in the moment before it started: see who gives out addresses of the job's network", Err: err}
	case strings.Contains(said, "attaching to network failed") || strings.Contains(said, context.DeadlineExceeded.Error()):
		// An overlay's addresses are its managers' to give, which may be away: an engine hears of that when a container starts.
		return &work.Passing{Words: "this host's container engine could not put its member into the job's network in time: see its log, and whether the managers of its overlays answer (docker node ls)", Err: err}
	case strings.Contains(said, "user configured subnet"):
		return &engine.Error{Err: err, Help: "have the network's owner make it with docker network create --subnet: members keep the addresses that their hosts have told"}
	case errdefs.IsNotFound(err) && strings.Contains(said, "network"):
		return &engine.Error{Err: err, Help: "have this host's owner make that network, on several hosts as an overlay: docker network create --driver overlay --attachable --subnet"}
	}
	return err
}
