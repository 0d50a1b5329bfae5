package state

import (
	"errors"
	"slices"
	"strings"
)

// OwnedRun says who owns some leaves in all attempts of a round. Owners are named by their node keys (peer IDs), so that one which
// comes back with another session is the same.
type OwnedRun struct {
	LeafRun
	Home   string `json:"home"`             // who got them in the first attempt
	Deputy string `json:"deputy,omitempty"` // who got them when the home was gone
}

// Owner is one participant as Allot sees it.
type Owner struct {
	PeerID   string // its node key
	SPIFFEID string
	Weight   uint32
	NoShard  bool // it wishes to own nothing
	Named    bool // the contract's rule names it among those who may own
}

// ErrThirdOwner says that leaves whose home and deputy are both gone would go to a third.
var ErrThirdOwner = errors.New("leaves would go to a third owner")

// ErrNoOwner says that none of those whom the contract's rule lets own is there.
var ErrNoOwner = errors.New("nobody is there whom the rules let own")

// Allot says who owns which leaves in an attempt with these participants, in plan order. had is what the attempts before in this
// round came to; nil: there was none. It returns what holds from now on, and each participant's runs, ascending.
//
// Without had all leaves are divided in equal parts among units, in plan order. A unit is a SPIFFE ID that is a node's own, and
// its part is divided among its sessions; under an ID that nodes share each node is one. Later a run belongs to its home if
// that takes part, else to its deputy; runs whose home is gone and which have no deputy are divided like the whole was. So one
// contribution's leaf goes to two owners at most, whoever leaves, comes back or fails, and in whatever order.
//
// byRule tells that a rule names who may own: then nobody else does. Without it who has weight 0 owns nothing, as it would see
// the others' contributions for nothing of its own. Who wishes to own nothing owns nothing, unless nobody would be left.
func Allot(leaves uint64, had []OwnedRun, owners []Owner, byRule bool) (runs []OwnedRun, shards [][]LeafRun, err error) {
	runs = had
	if had == nil && leaves > 0 {
		runs = []OwnedRun{{LeafRun: LeafRun{Leaves: leaves}}}
	}
	there := make(map[string]int, len(owners))
	for i, o := range owners {
		there[o.PeerID] = i
	}
	orphaned, third := uint64(0), false
	for _, r := range runs {
		_, home := there[r.Home]
		_, deputy := there[r.Deputy]
		if !home && !deputy {
			orphaned, third = orphaned+r.Leaves, third || r.Deputy != ""
		}
	}
	amounts := divide(orphaned, owners, byRule)
	switch {
	case orphaned > 0 && amounts == nil:
		return nil, nil, ErrNoOwner
	case third:
		return nil, nil, ErrThirdOwner
	}
	runs = deal(runs, there, owners, amounts)
	shards = make([][]LeafRun, len(owners))
	for _, r := range runs {
		i, home := there[r.Home]
		if !home {
			i = there[r.Deputy]
		}
		own := shards[i]
		if n := len(own); n > 0 && own[n-1].First+own[n-1].Leaves == r.First {
			own[n-1].Leaves += r.Leaves
			continue
		}
		shards[i] = append(own, r.LeafRun)
	}
	return runs, shards, nil
}

// deal gives the runs that nobody there owns to the owners in plan order, to each the amount that is left for it.
func deal(runs []OwnedRun, there map[string]int, owners []Owner, amounts []uint64) []OwnedRun {
	var out []OwnedRun
	next := 0
	for _, r := range runs {
		_, home := there[r.Home]
		_, deputy := there[r.Deputy]
		for !home && !deputy && r.Leaves > 0 {
			for amounts[next] == 0 {
				next++
			}
			part := r
			part.Leaves = min(r.Leaves, amounts[next])
			if r.Home == "" {
				part.Home = owners[next].PeerID
			} else {
				part.Deputy = owners[next].PeerID
			}
			out = append(out, part)
			amounts[next] -= part.Leaves
			r.First, r.Leaves = r.First+part.Leaves, r.Leaves-part.Leaves
		}
		if r.Leaves > 0 {
			out = append(out, r)
		}
	}
	return out
}

// divide returns how many of so many leaves each owner gets; nil: nobody may own any.
func divide(leaves uint64, owners []Owner, byRule bool) []uint64 {
	may := func(o Owner) bool { return byRule && o.Named || !byRule && o.Weight > 0 }
	wish := func(o Owner) bool { return may(o) && !o.NoShard }
	owns := wish
	if !slices.ContainsFunc(owners, wish) {
		owns = may
	}
	if !slices.ContainsFunc(owners, owns) {
		return nil
	}
	var units []string
	members := map[string][]int{}
	for i, o := range owners {
		if owns(o) {
			u := Unit(o.SPIFFEID, o.PeerID)
			if members[u] == nil {
				units = append(units, u)
			}
			members[u] = append(members[u], i)
		}
	}
	amounts := make([]uint64, len(owners))
	for rank, u := range units {
		part := portion(leaves, rank, len(units))
		for k, i := range members[u] {
			amounts[i] = portion(part, k, len(members[u]))
		}
	}
	return amounts
}

// portion is the part of whole that the one of this rank gets among n: the first ones get one more than the last.
func portion(whole uint64, rank, n int) uint64 {
	part := whole / uint64(n)           //nolint:gosec // n is a length above 0
	if uint64(rank) < whole%uint64(n) { //nolint:gosec // likewise
		part++
	}
	return part
}

// Unit names what counts as one party, which gets one part of a model: a SPIFFE ID that is a node's own, else the node's key. No peer
// ID reads as a SPIFFE ID.
func Unit(spiffeID, peerID string) string {
	if OwnID(spiffeID) {
		return spiffeID
	}
	return peerID
}

// OwnID reports whether a SPIFFE ID is a single node's (spiffe://DOMAIN/swarm/ROLE/NAME) and not one that nodes of a role share.
func OwnID(spiffeID string) bool {
	rest, ok := strings.CutPrefix(spiffeID, "spiffe://")
	return ok && strings.Count(rest, "/") >= 3
}
