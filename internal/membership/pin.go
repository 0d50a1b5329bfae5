package membership

import (
	"fmt"
	"sync"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/p2p"
)

// Pin is the swarm that this node belongs to: once known it never changes, but for its epoch. It is kept in the state directory.
type Pin struct {
	dir   string
	given bool // the swarm ID comes from an option, and nothing is known of its epoch

	mu sync.Mutex
	at epoch.Pin
}

// OpenPin reads what a state directory knows of its swarm. A swarm ID that was given must be that one.
func OpenPin(dir, given string) (*Pin, error) {
	kept, err := agreed(dir, given)
	if err != nil {
		return nil, err
	}
	if kept.SwarmID == "" {
		if err := epoch.Forget(dir); err != nil {
			return nil, err
		}
		return &Pin{dir: dir, at: epoch.First(given), given: given != ""}, nil
	}
	return &Pin{dir: dir, at: kept}, nil
}

// Pinned is the swarm ID that OpenPin would come to, "" for none. It changes nothing in the directory, which may not be there.
func Pinned(dir, given string) (string, error) {
	kept, err := agreed(dir, given)
	if kept.SwarmID == "" {
		return given, err
	}
	return kept.SwarmID, err
}

// agreed is what a state directory knows, which must not be of another swarm than the given one.
func agreed(dir, given string) (epoch.Pin, error) {
	kept, err := epoch.Read(dir)
	if err == nil && kept.SwarmID != "" && given != "" && kept.SwarmID != given {
		err = fmt.Errorf("state directory %s belongs to swarm %s, --swarm-id names %s: give another --state-dir, or delete the directory to forget the old swarm", dir, kept.SwarmID, given)
	}
	return kept, err
}

// SwarmID returns the swarm ID, "" while it is not known.
func (p *Pin) SwarmID() string {
	return p.Epoch().SwarmID
}

// Epoch returns the swarm with its epoch.
func (p *Pin) Epoch() epoch.Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Named is how this node names its swarm to others, "" while it does not know its epoch either.
func (p *Pin) Named() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given {
		return ""
	}
	return p.at.String()
}

// Set pins the swarm for good. Another swarm than the pinned one is refused.
func (p *Pin) Set(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.SwarmID != "" && p.at.SwarmID != id {
		return &p2p.SwarmMismatchError{Mine: p.at.SwarmID, Theirs: id}
	}
	if err := identity.PinSwarmID(p.dir, id); err != nil {
		return err
	}
	p.at.SwarmID, p.given = id, false
	return nil
}

// Learn pins the swarm and the epoch that the first SN names.
func (p *Pin) Learn(named string) error {
	at, err := epoch.Parse(named)
	if err != nil {
		return err
	}
	if err := p.Set(at.SwarmID); err != nil {
		return err
	}
	return p.Follow(at)
}

// Follow pins a later epoch, which was proven, or learned at first contact.
func (p *Pin) Follow(at epoch.Pin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := epoch.Write(p.dir, at); err != nil {
		return err
	}
	p.at, p.given = at, false
	return nil
}
