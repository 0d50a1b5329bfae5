package task

import "github.com/swarmd/swarmd/consensus/ledger"

// Hosted is an assignment as a host sees it that has members in it. It is all that a host knows of assignments: what runs on it and is in
// no Hosted of its own is to end.
type Hosted struct {
	Request

	Epoch   uint32
	Phase   Phase
	Members []HostedMember // those of the host that are not cleaned up, by index
	Order   *ledger.Order  // what the operator signed; nil: nobody did
	// Approvals are what operators have said on the host's part, oldest first.
	Approvals []Approval
}

// MaxValidMS is how long before its expiry a host takes what operators have signed, at most, in milliseconds.
const MaxValidMS = 7 * 24 * 3600 * 1000

// HostedMember is a host's own member.
type HostedMember struct {
	Index uint32 // in the epoch
	Group string
	Peers uint32 // that it counts for
	State State  // the last one that was committed of it: what the host has reported and repeats
	// Start says that the barrier before it is passed: it may start.
	Start bool
	// Stop says that nothing of it is to run any more, but for what has ended by itself: there is a verdict, the epoch was withdrawn, or the
	// member has ended.
	Stop bool
}

// HostedOn returns what a node is to know as a host, those first that were made first.
func HostedOn(b *Board, node string) (all []Hosted) {
	for _, id := range b.LiveIDs() {
		a := b.Assignments[id]
		h := Hosted{Request: a.Request, Epoch: a.Epoch, Phase: a.Phase, Order: a.Order, Approvals: a.approvals(node)}
		for i, m := range a.Members {
			if m.Node != node || m.Cleaned {
				continue
			}
			goes := a.Phase == Preparing || a.Phase == Running
			h.Members = append(h.Members, HostedMember{
				Index: uint32(i), Group: m.Group, Peers: m.Peers, State: m.State, Start: a.Started(m.Group), //nolint:gosec // at most MaxMembers
				Stop: !goes || m.State.ended(),
			})
		}
		if len(h.Members) > 0 {
			all = append(all, h)
		}
	}
	return all
}

// MaxHosted bounds the members of which one host reports at a time.
const MaxHosted = 64

// MemberReport is what a host says of one of its members. It repeats that until it sees it committed.
type MemberReport struct {
	Assignment string
	Epoch      uint32
	// Group and Peers are the member's, as the host was shown it and signed it. Hosts of before said neither.
	Group string
	Peers uint32
	Report
}

// Site is where a member of an epoch is, as hosts are told of all of them. No operator has signed it.
type Site struct {
	Node  string
	Group string
	// Address is an IP or a name by which the node says that it is reached; empty: it is not known.
	Address string
	// Own is the member's own IP in the network of its job, as its host has told and signed; empty: it has none, or that is not known yet.
	Own string
}

// MaxAddress bounds the address of a site, in bytes.
const MaxAddress = 253
