package assign

import (
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// news are the reports that change something: hosts that are lost, then what the others say.
func (d *decision) news(a *task.Assignment) (news []task.Report) {
	add := func(r task.Report) {
		if len(news) < d.room && a.Takes(a.Epoch, r) {
			news = append(news, r)
		}
	}
	for i, m := range a.Members {
		if m.Cleaned {
			continue
		}
		if why := d.lost(m); why != "" {
			add(task.Report{Member: uint32(i), Node: m.Node, State: task.Lost, Text: why}) //nolint:gosec // at most MaxMembers
			continue
		}
		for _, r := range d.in.Reports[m.Node].Members {
			if r.Assignment == a.ID && r.Epoch == a.Epoch && int(r.Member) == i && r.State != task.Lost {
				r.Text = state.Clip(r.Text, task.MaxText)
				if r.Group != "" && (r.Group != m.Group || r.Peers != m.Peers) {
					r.Signature, r.Asks = "", "" // an SN has shown the host another part than this: what it has signed proves nothing of it
				}
				if !a.ExitsCount && (r.State == task.Exited && r.Asks != "" || r.Asks == task.AskFail) {
					r.Signature, r.Asks = "", "" // of a job from before, of which that can't be asked: the state it is in is to be known
				}
				add(r.Report)
			}
		}
	}
	return news
}

// lost says why a member's host does not run it for us any more; empty: it does.
func (d *decision) lost(m task.Member) string {
	n := d.in.View.Nodes[m.Node]
	switch {
	case n == nil || n.PeerID != m.PeerID:
		return "it is no node of the swarm any more"
	case d.in.View.Banned(n.PeerID) != nil:
		return "it was banned"
	case n.Left():
		return "it has left"
	case !n.Live:
		return "it is not heard any more"
	}
	return ""
}
