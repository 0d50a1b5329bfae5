package framework

import (
	"strconv"
	"strings"
)

// Placement is where the members of a job are, in one epoch of it.
type Placement struct {
	Run      string // of the job, as name-1
	Epoch    int    // counts how often its members were started together, from 0
	Members  []Place
	Metadata string // where each member finds the file that names all
}

// Place is where a member is, by its rank.
type Place struct {
	Host      string
	Name      string // by which the others find it
	Address   string // IP, in the network that the members share
	Interface string // of that network, where the member is in its host's; empty: it has no other
	WorkDir   string // where the folder of the run is in the member; empty: there is none
	Secrets   string // where it finds those that it has as files; empty: it has none
	Artifacts string // where it leaves what is to be kept; empty: nowhere
}

// reachable is what the others call a member. An address needs nobody who knows names.
func (p Place) reachable() string {
	if p.Address != "" {
		return p.Address
	}
	return p.Name
}

// at is what the others call a port of a member.
func (p Place) at(port int) string {
	host := p.reachable()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// Member is a place in the world.
type Member struct {
	Rank  int // in all groups
	Index int // in its group

	group int // in the world
}

// members are all of a world, by rank.
func (w *World) members() (all []Member) {
	for g := range w.Groups {
		for i := range w.Groups[g].Replicas {
			all = append(all, Member{Rank: w.first() + len(all), Index: i, group: g})
		}
	}
	return all
}

// NameOf is the name of a member in the network, by its rank.
func NameOf(rank int) string { return "node-" + strconv.Itoa(rank) }
