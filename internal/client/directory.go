package client

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/epoch"
)

// directory knows the swarm's SNs, which of them is in use, and which swarm it is. Safe for concurrent use.
type directory struct {
	onLearn  func(swarmID string, sns []SN) // nil: nobody is told
	onFollow func(epoch.Pin)                // likewise

	// mu guards what follows.
	mu      sync.Mutex
	pin     epoch.Pin
	asked   time.Time // when SNs were last asked whether to follow a later epoch
	first   []string  // as configured: never forgotten
	sns     []string  // all known, host:port
	told    *learned  // what onLearn was told last, nil before
	current string
	moved   chan struct{} // closed when current changes
	refresh bool          // we moved: ask the next SN for the list
	doubted time.Time     // when an SN was left last for what it said
	doubt   string        // that SN
}

// all returns all SNs, the one in use first.
func (d *directory) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []string{d.current}
	for _, sn := range d.sns {
		if sn != d.current {
			out = append(out, sn)
		}
	}
	return out
}

// known returns all SNs in the order in which they are asked.
func (d *directory) known() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.sns)
}

// named returns the SNs of which the swarm has told.
func (d *directory) named() []SN {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told == nil {
		return nil
	}
	return slices.Clone(d.told.sns)
}

// pinned is the swarm and the epoch that is followed, or no swarm before the first answer.
func (d *directory) pinned() epoch.Pin {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pin
}

// where returns the SN in use, and a channel that is closed when another one is.
func (d *directory) where() (string, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current, d.moved
}

// wants reports whether a swarm is pinned, and whether the list of SNs is to be asked for, which is then seen to.
func (d *directory) wants() (pinned, refresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	refresh, d.refresh = d.refresh, false
	return d.pin.SwarmID != "", refresh
}

// moveFrom goes to the next SN unless somebody did so already. It returns how many SNs are known.
func (d *directory) moveFrom(sn string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == sn && len(d.sns) > 1 {
		i := slices.Index(d.sns, sn)
		d.goLocked(d.sns[(i+1)%len(d.sns)])
	}
	return len(d.sns)
}

// goLocked goes to an SN.
func (d *directory) goLocked(sn string) {
	d.current = sn
	d.refresh = true
	close(d.moved)
	d.moved = make(chan struct{})
}

// leave goes from one SN to another unless another one is in use by now, and has what it said forgotten.
func (d *directory) leave(used, next string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != used {
		return false
	}
	d.doubted, d.doubt = time.Now(), used
	d.goLocked(next)
	return true
}

// doubtAgain is the least time between two SNs that are left because their word does not hold.
const doubtAgain = 30 * time.Second

// doubtCurrent is Client.Doubt.
func (d *directory) doubtCurrent() string {
	d.mu.Lock()
	sn, soon := d.current, time.Since(d.doubted) < doubtAgain
	if !soon {
		d.doubted, d.doubt = time.Now(), sn
	}
	d.mu.Unlock()
	if !soon {
		d.moveFrom(sn)
	}
	return sn
}

// doubts reports whether the word of an SN was found not to hold.
func (d *directory) doubts(sn string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sn != "" && d.doubt == sn
}

// learned is what an SN has told of the swarm.
type learned struct {
	swarmID string
	sns     []SN
}

// learn pins the swarm ID and replaces the list of SNs. The configured ones stay at its end: the swarm may have
// forgotten how we reach it.
func (d *directory) learn(swarmID, named string, nodes []*swarmv1.Node) {
	sns := Reachable(nodes)
	d.mu.Lock()
	var list []string
	for _, sn := range sns {
		if !slices.Contains(list, sn.Address) { // behind a proxy several may have one
			list = append(list, sn.Address)
		}
	}
	for _, sn := range append(slices.Clone(d.first), d.current) {
		if !slices.Contains(list, sn) {
			list = append(list, sn)
		}
	}
	first := d.pin.SwarmID == ""
	if first {
		d.pin = epoch.First(swarmID)
		if p := pinned(named); p.SwarmID == swarmID {
			d.pin = p
		}
	}
	pin := d.pin
	changed := d.told == nil || d.told.swarmID != swarmID || !slices.Equal(d.told.sns, sns)
	d.told = &learned{swarmID, sns}
	d.sns, d.refresh = list, false
	d.mu.Unlock()
	if first {
		d.tellFollow(pin)
	}
	if changed && d.onLearn != nil {
		d.onLearn(swarmID, sns)
	}
}

// choose pins a swarm, of which an SN is, if none is pinned.
func (d *directory) choose(swarm, sn string) {
	d.mu.Lock()
	unpinned := d.pin.SwarmID == ""
	if unpinned {
		d.pin, d.current = pinned(swarm), sn
	}
	pin := d.pin
	d.mu.Unlock()
	if unpinned {
		d.tellFollow(pin)
	}
}

// mayFollow reports whether to ask an SN of a later epoch for the proof of it, and which epoch is followed now.
func (d *directory) mayFollow(theirs string) (from epoch.Pin, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pin.SwarmID == "" || d.pin.Compare(theirs) != epoch.Newer || time.Since(d.asked) < followAgain {
		return d.pin, false
	}
	d.asked = time.Now()
	return d.pin, true
}

// follow goes on to a later epoch, unless another one than from is followed by now.
func (d *directory) follow(from, next epoch.Pin) {
	d.mu.Lock()
	moved := d.pin == from
	if moved {
		d.pin, d.refresh = next, true
	}
	d.mu.Unlock()
	if moved {
		d.tellFollow(next)
	}
}

// tellFollow tells of a later epoch than the first.
func (d *directory) tellFollow(p epoch.Pin) {
	if p.Epoch > 1 && d.onFollow != nil {
		d.onFollow(p)
	}
}

// Reachable are the SNs among the nodes of which an API address is known.
func Reachable(nodes []*swarmv1.Node) []SN {
	var out []SN
	for _, n := range nodes {
		at, err := address.HostPort(n.GetApiService(), "")
		switch {
		case err == nil && at == n.GetApiService():
			out = append(out, SN{n.GetName(), at})
		case n.GetHost() != "" && n.GetApiPort() != 0 && n.GetApiPort() <= 65535:
			out = append(out, SN{n.GetName(), hostPort(n.GetHost(), n.GetApiPort())})
		}
	}
	return out
}

func hostPort(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}
