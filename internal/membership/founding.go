package membership

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
)

// newcomer is how old a swarm may be whose founder gives way to another one.
const newcomer = 24 * time.Hour

// seeker is an SN that has dialled this node's address to find another node key there, one that is a member of its swarm, or an SL that
// takes this SN for one of its swarm.
type seeker struct {
	swarm, name string
	from        net.Addr // nil: it is an SL
}

func (s seeker) String() string {
	if s.from == nil {
		return fmt.Sprintf("SL %s belongs to swarm %.64q and takes this node for an SN of it", s.name, s.swarm)
	}
	host, _, err := net.SplitHostPort(s.from.String())
	if err != nil {
		host = s.from.String()
	}
	return fmt.Sprintf("swarm %s lives, and its SN %s (from %s) looks for a member at this address", s.swarm, s.name, host)
}

// Missed notes who has found this node in place of another.
func (s *Member) Missed(who identity.ID, swarmID string, from net.Addr) {
	if who.Role() != identity.RoleSN {
		return
	}
	select {
	case s.seekers <- seeker{swarmID, cmp.Or(who.NodeName(), who.String()), from}:
	default: // one says enough
	}
}

// Strayed notes an SL of another swarm. Swarms on one machine and tests, which found without listening, have none to look for.
func (s *Member) Strayed(who identity.ID, swarmID string) {
	if who.Role() != identity.RoleSL || s.cfg.FoundAfter <= 0 {
		return
	}
	select {
	case s.seekers <- seeker{swarm: swarmID, name: cmp.Or(who.NodeName(), who.String())}:
	default: // one says enough
	}
}

// listen waits before this node, which has no state, founds a swarm: where it was the member of one that lives, the others dial its
// Address time and again, and it must not found a second swarm there.
func (s *Member) listen(ctx context.Context) error {
	if s.cfg.FoundAfter <= 0 {
		return nil
	}
	timer := time.NewTimer(s.cfg.FoundAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case found := <-s.seekers:
		return fmt.Errorf("%s, so no other swarm is founded here: start this node with --join HOST of one of its SNs, or stop them all first", found)
	}
}

// founded is the group of a founder. *consensus.Group fulfils it.
type founded interface {
	View() *state.State
	Servers() []consensus.Server
}

// GiveWay ends this node if it has founded a swarm that nobody has joined beside another one.
func (s *Member) GiveWay(ctx context.Context, group founded) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case found := <-s.seekers:
			own := s.cfg.Pin.Named()
			if pin := s.cfg.Pin.Epoch(); pin.SwarmID != "" && pin.Compare(found.swarm) != epoch.Other {
				continue // of another epoch of this swarm, which was recovered or restored here
			}
			if len(group.View().Recoveries) > 0 || !alone(group.View(), s.cfg.Name, len(group.Servers()), time.Now()) {
				continue
			}
			return fmt.Errorf("%s; swarm %s, which was founded here, is new and nobody has joined it: delete the state directory %s and start this node with --join HOST of one of that swarm's SNs, or stop its nodes first", found, own, s.cfg.StateDir)
		}
	}
}

// alone reports whether an SN has a new swarm to itself, in which nobody has done anything yet: such a one is given up for another. What
// others rely on never is, whoever says that it is looking for its own.
func alone(view *state.State, name string, servers int, now time.Time) bool {
	c := view.Contracts[state.DefaultContract]
	return servers == 1 && len(view.Nodes) == 1 && view.Nodes[name] != nil && len(view.Bans) == 0 &&
		c != nil && len(view.Contracts) == 1 && len(c.Sessions) == 0 && now.Sub(time.UnixMilli(c.CreatedMS)) < newcomer
}
