package consent

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// indices are some members of an epoch: a bit for each, the first in the lowest of the first byte, in hex.
type indices string

func (x indices) check() error {
	if raw, err := hex.DecodeString(string(x)); err != nil || len(raw) > task.MaxMembers/8 {
		return errors.New("its members are out of bounds")
	}
	return nil
}

func (x indices) has(i uint32) bool {
	raw, err := hex.DecodeString(string(x))
	return err == nil && uint64(i/8) < uint64(len(raw)) && raw[i/8]>>(i%8)&1 == 1
}

// with returns them with one more, below task.MaxMembers.
func (x indices) with(i uint32) indices {
	raw, err := hex.DecodeString(string(x))
	if err != nil { // never: check has seen it
		raw = nil
	}
	if missing := int(i/8) + 1 - len(raw); missing > 0 {
		raw = append(raw, make([]byte, missing)...)
	}
	raw[i/8] |= 1 << (i % 8)
	return indices(hex.EncodeToString(raw))
}

// PartEnded says that nothing of one member runs any more on this host, which has others in the epoch: it is not that one again. Of what was not
// begun it says nothing.
func (g *Guard) PartEnded(p task.Part) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, known := g.cfg.Journal.Find(p.Assignment)
	if !known || e.Epoch != p.Epoch || !e.running() || p.Member >= task.MaxMembers || e.Done.has(p.Member) {
		return nil
	}
	e.Done = e.Done.with(p.Member)
	return g.cfg.Journal.put(e, time.Now().UnixMilli())
}

// HasEnded reports whether this host was a member of an epoch already, and that has ended.
func (g *Guard) HasEnded(p task.Part) bool {
	e, known := g.cfg.Journal.Find(p.Assignment)
	return known && e.Epoch == p.Epoch && (e.EndedMS > 0 || e.Done.has(p.Member))
}

// onePart is the index of the only member that a host is of an assignment, plus one; 0: of a job it may be several.
func onePart(h *task.Hosted, t *task.Task) uint32 {
	if t == nil || t.Type == task.RunJob || len(h.Members) != 1 {
		return 0
	}
	return h.Members[0].Index + 1
}

// membersText says to whom is asked how many members of a job the host is, and how many an SN may have it be under the same word; empty: the task is
// no job.
func membersText(h *task.Hosted, t *task.Task) string {
	if t.Type != task.RunJob {
		return ""
	}
	all := uint64(0)
	for _, g := range h.Groups {
		all += uint64(g.Peers)
	}
	return fmt.Sprintf("as %d of %d members, and %d at most", len(h.Members), all, min(all, task.MaxHosted))
}

// holdParts bounds what a host carries out of an assignment of a task: one part, or of a job as many as it has, and as its groups have.
func holdParts(asked *task.Request, members []task.HostedMember, taskType string) error {
	most := 1
	if taskType == task.RunJob {
		most = task.MaxHosted
	}
	if len(members) > most {
		return fmt.Errorf("the SN has this host be %d members of it at a time: a host is at most %d", len(members), most)
	}
	in := map[string]uint32{}
	for i, m := range members {
		if in[m.Group]++; slices.ContainsFunc(asked.Groups, func(g task.Group) bool { return g.Name == m.Group && in[m.Group] > g.Peers }) {
			return fmt.Errorf("the operator signed for fewer members of group %.80q than the %d of which the SN has this host be one each", m.Group, in[m.Group])
		}
		if slices.ContainsFunc(members[:i], func(x task.HostedMember) bool { return x.Index == m.Index }) {
			return fmt.Errorf("the SN has this host be member %d twice", m.Index)
		}
		switch group := groupAt(asked.Groups, m.Index); {
		case group == "":
			return fmt.Errorf("the operator signed for fewer members than the SN has: this host would be member %d", m.Index)
		case taskType == task.RunJob && group != m.Group:
			return fmt.Errorf("the operator signed for member %d in group %.80q, the SN shows it in group %.80q", m.Index, group, m.Group)
		}
	}
	return nil
}

// groupAt is the group of a member if each of its epoch is one peer, as in jobs; empty: so many were not asked for, whatever they count for.
func groupAt(groups []task.Group, index uint32) string {
	before := uint64(0)
	for _, g := range groups {
		if before += uint64(g.Peers); uint64(index) < before {
			return g.Name
		}
	}
	return ""
}
