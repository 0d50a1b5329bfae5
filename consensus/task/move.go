package task

import (
	"maps"
	"slices"
)

// Act is what a move does beside taking reports.
type Act string

// The acts of the leader.
const (
	Wait     Act = "wait"     // say what is waited for
	Place    Act = "place"    // begin an epoch
	Pass     Act = "pass"     // the next barrier
	Withdraw Act = "withdraw" // end the epoch; another may follow
	Judge    Act = "judge"    // give the verdict
	Close    Act = "close"    // it is over
)

// Bounds of what is moved at a time.
const (
	MaxMoves   = MaxLive
	MaxReports = 4 * MaxMembers // of all moves together
)

// Move is the leader's next step with one assignment: what its members have become, then an act.
type Move struct {
	Assignment string      `json:"assignment"`
	Epoch      uint32      `json:"epoch"` // of the assignment before the move
	Reports    []Report    `json:"reports,omitempty"`
	Do         Act         `json:"do,omitempty"` // empty: nothing more
	Members    []Placement `json:"members,omitempty"`
	Why        string      `json:"why,omitempty"`     // what is waited for, or why an epoch or all ends
	Verdict    Verdict     `json:"verdict,omitempty"` // Succeeded or Failed
	End        End         `json:"end,omitempty"`     // of a job, with its verdict, or which one it has if no other epoch follows
}

// Placement puts a member on a node.
type Placement struct {
	Node  string `json:"node"`
	Group string `json:"group"`
	Peers uint32 `json:"peers"` // that it counts for
}

// Move makes moves, each by itself: one that is not legal is left out. It refuses if none was made and one was not legal. keyOf returns
// the peer ID of a node that may become a member, of others nothing.
func (b *Board) Move(moves []Move, keyOf func(node string) string, atMS int64) (*Board, error) {
	reports := 0
	for _, m := range moves {
		reports += len(m.Reports)
	}
	if len(moves) > MaxMoves || reports > MaxReports {
		return b, illegal(Bad, "", "%d moves with %d reports at a time, at most %d with %d", len(moves), reports, MaxMoves, MaxReports)
	}
	next, changed := b.draft(), false
	var refused error
	for _, m := range moves {
		switch moved, err := next.move(m, keyOf, atMS); {
		case err != nil && refused == nil:
			refused = err
		case moved:
			changed = true
		}
	}
	if !changed {
		return b, refused
	}
	return next, nil
}

// move works on a draft.
func (b *Board) move(m Move, keyOf func(string) string, atMS int64) (changed bool, err error) {
	old := b.Assignments[m.Assignment]
	if old == nil {
		return false, illegal(Unknown, "", "no assignment %s", clipped(m.Assignment))
	}
	a := old.copied()
	for _, r := range m.Reports {
		changed = a.take(m.Epoch, r, atMS) || changed
	}
	if m.Do == Judge && m.Verdict == Failed && a.Open() && !mayFail(b, a) {
		return false, illegal(Stale, "", "assignment %s has succeeded: it can't be judged to have failed", a.ID)
	}
	if m.Do != "" {
		acted, err := a.act(m, keyOf, atMS)
		if err != nil {
			return false, err
		}
		changed = acted || changed
	}
	if !changed {
		return false, nil
	}
	noteReady(a, atMS)
	noteStop(a, atMS)
	b.Assignments[a.ID] = a
	if a.Phase == Over && old.Phase != Over {
		b.close(a)
	}
	return true, nil
}

// mayFail reports whether an assignment can be judged to have failed: not if as many have succeeded as must. One that joins another fails with
// it.
func mayFail(b *Board, a *Assignment) bool {
	if !a.Strict || !a.Met() {
		return true
	}
	main := b.Assignments[a.Joins]
	return main != nil && !main.Open() && main.Verdict != Succeeded
}

// act carries out what a move does. It is legal in the current epoch only.
func (a *Assignment) act(m Move, keyOf func(string) string, atMS int64) (bool, error) {
	stale := illegal(Stale, "", "assignment %s is %s in epoch %d: it can't %s as of epoch %d", a.ID, a.Phase, a.Epoch, clipped(string(m.Do)), m.Epoch)
	if !text(m.Why, MaxText) {
		return false, illegal(Bad, "", "the reason of a move of assignment %s is out of bounds", a.ID)
	}
	if m.Do == Judge && !a.Open() {
		return false, nil // the first one stands
	}
	if m.Epoch != a.Epoch {
		return false, stale
	}
	switch {
	case m.Do == Wait && a.Live():
		changed := a.Wants != m.Why
		a.Wants = m.Why
		return changed, nil
	case m.Do == Place && a.Phase == Waiting && a.Settled(atMS):
		return true, a.place(m.Members, keyOf, atMS)
	case m.Do == Pass && a.Due():
		a.Passed++
		a.enter(Running, "", atMS)
		return true, nil
	case m.Do == Withdraw && (a.Phase == Preparing || a.Phase == Running) && a.Epoch <= a.Retries && (m.End == "" || a.Shares && m.End.Verdict() == Failed):
		a.withdraw(m.Why, m.End, atMS)
		return true, nil
	case m.Do == Judge && mayJudge(a, m, atMS):
		return a.end(m.Verdict, m.End, m.Why, atMS), nil
	case m.Do == Close && a.Phase == Ending && a.Settled(atMS):
		a.enter(Over, "", atMS)
		return true, nil
	}
	return false, stale
}

// place begins an epoch with these members.
func (a *Assignment) place(places []Placement, keyOf func(string) string, atMS int64) error {
	if len(places) == 0 || len(places) > MaxMembers {
		return illegal(Bad, "", "assignment %s would have %d members, at most %d", a.ID, len(places), MaxMembers)
	}
	var members []Member
	placed := map[string]uint64{}
	for _, p := range places {
		key := keyOf(p.Node)
		if key == "" || p.Peers == 0 || p.Peers > MaxMembers || a.group(p.Group) < 0 || len(a.Hosts) > 0 && !slices.Contains(a.Hosts, p.Node) {
			return illegal(Bad, "", "assignment %s can't have %s as a member in group %s", a.ID, clipped(p.Node), clipped(p.Group))
		}
		if a.Strict && !a.Shares && slices.ContainsFunc(members, func(m Member) bool { return m.Node == p.Node }) {
			return illegal(Bad, "", "assignment %s would have %s twice as a member", a.ID, clipped(p.Node))
		}
		placed[p.Group] += uint64(p.Peers)
		members = append(members, Member{Node: p.Node, PeerID: key, Group: p.Group, Peers: p.Peers, State: Placed, ChangedMS: atMS})
	}
	for _, g := range a.Groups {
		if placed[g.Name] < uint64(g.Peers) {
			return illegal(Bad, "", "assignment %s would have %d of %d peers in group %s", a.ID, placed[g.Name], g.Peers, g.Name)
		}
	}
	if err := fitsJob(a, members); err != nil {
		return err
	}
	a.Epoch, a.Passed, a.Members = a.Epoch+1, 0, members
	a.LastEnd, a.LastWhy = "", ""
	a.StoppedMS, a.Asked = 0, AskedEnd{}
	if a.ReadySinceMS = 0; a.Shares {
		a.PlacedMS = max(atMS, 1)
	}
	a.enter(Preparing, "", atMS)
	return nil
}

// withdraw ends the epoch. Who has refused is not asked again.
func (a *Assignment) withdraw(why string, end End, atMS int64) {
	if end != "" {
		a.LastEnd, a.LastWhy = end, why
	}
	for _, m := range a.Members {
		if m.State == Refused && !slices.Contains(a.Avoid, m.Node) && len(a.Avoid) < MaxMembers {
			a.Avoid = append(a.Avoid, m.Node)
		}
	}
	slices.Sort(a.Avoid)
	a.Passed, a.ReadySinceMS, a.StoppedMS, a.Asked = 0, 0, 0, AskedEnd{}
	a.enter(Waiting, why, atMS)
}

// close counts an assignment that is over, and lets the oldest go that are too many.
func (b *Board) close(a *Assignment) {
	b.Over++
	a.Number, a.Order, a.Approvals, a.Asked = b.Over, nil, nil, AskedEnd{}
	for i := range a.Members {
		a.Members[i].Signature = "" // the ledger has it
		a.Members[i].Address = Address{}
	}
	releaseRunner(b, a)
	for _, id := range slices.Sorted(maps.Keys(b.Assignments)) {
		if o := b.Assignments[id]; o.Number > 0 && o.Number+MaxOver <= b.Over {
			delete(b.Assignments, id)
			if b.holds(o) {
				b.setAssignment(o.Taskrunner, "")
			}
		}
	}
}

// holds reports whether an assignment is its taskrunner's last one.
func (b *Board) holds(a *Assignment) bool {
	r := b.Taskrunners[a.Taskrunner]
	return r != nil && r.Assignment == a.ID
}
