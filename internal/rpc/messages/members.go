package messages

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
)

// Candidates are the SNs that an operator has admitted and that have not joined, and those that wait, by name.
func Candidates(view *state.State, waiting []admission.Candidate) []*swarmv1.Candidate {
	if view.Admit == "" {
		return nil
	}
	asking := map[string]admission.Candidate{}
	for _, c := range waiting {
		asking[c.PeerID] = c
	}
	var out []*swarmv1.Candidate
	for _, a := range view.Admissions() {
		if n := view.NodeOfKey(a.PeerID); n == nil {
			c := asking[a.PeerID]
			out = append(out, &swarmv1.Candidate{
				Name: a.Name, PeerId: a.PeerID, SpiffeId: c.SPIFFEID, Host: c.Host, SinceUnixMs: a.AtMS, Admitted: true, AdmittedBy: a.By,
			})
		}
		delete(asking, a.PeerID)
	}
	for _, c := range asking {
		if view.Banned(c.PeerID) != nil {
			continue // it is gone, or is told with its next try
		}
		out = append(out, &swarmv1.Candidate{Name: c.Name, PeerId: c.PeerID, SpiffeId: c.SPIFFEID, Host: c.Host, SinceUnixMs: c.SinceMS})
	}
	slices.SortFunc(out, func(a, b *swarmv1.Candidate) int {
		return strings.Compare(a.GetName()+" "+a.GetPeerId(), b.GetName()+" "+b.GetPeerId())
	})
	return out
}

// Invited are the SNs whose invitations can be claimed at a time, by name.
func Invited(view *state.State, atMS int64) []*swarmv1.Invited {
	var out []*swarmv1.Invited
	for _, i := range view.Invitations.Open(atMS) {
		out = append(out, &swarmv1.Invited{Name: i.Node, SpiffeId: i.SPIFFEID, Number: i.Number, By: i.By, AtUnixMs: i.AtMS, ExpiresUnixMs: i.ExpiresMS})
	}
	return out
}

// Bans shows all bans, by name.
func Bans(view *state.State) []*swarmv1.Ban {
	var out []*swarmv1.Ban
	for _, b := range slices.SortedFunc(maps.Values(view.Bans), func(a, b *state.Ban) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.PeerID, b.PeerID))
	}) {
		out = append(out, Ban(b))
	}
	return out
}

// NoQuorum goes with an answer from an SN's own copy of the state; nil: the copy is as good as any.
func NoQuorum(sn string, e *quorum.Error) *swarmv1.NoQuorum {
	if e == nil {
		return nil
	}
	out := &swarmv1.NoQuorum{Message: e.Error(), Remedy: e.Remedy(), Sn: sn}
	if !e.LeaderSeen.IsZero() {
		out.LeaderSeenUnixMs = e.LeaderSeen.UnixMilli()
	}
	for _, v := range e.Answer {
		out.Answering = append(out.Answering, v.Name)
	}
	for _, v := range e.Missing {
		out.Missing = append(out.Missing, &swarmv1.MissingSN{Name: v.Name, Address: v.Address})
	}
	return out
}
