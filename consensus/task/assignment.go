package task

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// Phase is where an assignment stands.
type Phase string

// The phases, in their order. A withdrawn epoch leads back to Waiting.
const (
	Waiting   Phase = "waiting"   // for hosts, or for the old epoch to be cleaned up
	Preparing Phase = "preparing" // hosts prepare, nobody starts yet
	Running   Phase = "running"
	Ending    Phase = "ending" // there is a verdict, and members to be cleaned up
	Over      Phase = "over"
)

// Verdict is how an assignment ended.
type Verdict string

// The verdicts.
const (
	Succeeded Verdict = "succeeded"
	Failed    Verdict = "failed"
	Cancelled Verdict = "cancelled" // by an operator
)

// Group is members of one kind, by the peers that they count for.
type Group struct {
	Name string `json:"name"`
	// Peers are how many are placed, at least: a host may count for more than one.
	Peers uint32 `json:"peers"`
	// Least is how many must succeed, at most Peers; 0: the group serves the others, and nobody waits for it.
	Least uint32 `json:"least,omitempty"`
	// Needs are, of a job, what each member takes of its host.
	Needs ledger.Needs `json:"needs,omitzero"`
	// Ports are, of a job, those to which each member listens in its host's network, and FirstPorts those to which the first does besides.
	Ports      []uint32 `json:"ports,omitempty"`
	FirstPorts []uint32 `json:"first_ports,omitempty"`
}

// Request is what an assignment is asked to be.
type Request struct {
	ID         string   `json:"id"` // decimal, 1 to 2⁶⁴-1: the original's OPERATION_ID
	Task       string   `json:"task"`
	Digest     string   `json:"digest,omitempty"`     // of the task; in a request empty: whatever it is
	Taskrunner string   `json:"taskrunner,omitempty"` // empty: it needs none, and names its hosts
	Hosts      []string `json:"hosts,omitempty"`      // the only nodes that may be members, sorted; none: those of the taskrunner
	Groups     []Group  `json:"groups"`
	InOrder    bool     `json:"in_order,omitempty"`   // a group starts when the one before it is ready
	Retries    uint32   `json:"retries,omitempty"`    // how many epochs may be withdrawn
	TimeoutMS  int64    `json:"timeout_ms,omitempty"` // from the request to the verdict; 0: none
	ExpiresMS  int64    `json:"expires_ms,omitempty"` // no host begins it later, by its own clock; 0: it does not expire
	By         string   `json:"by,omitempty"`         // SPIFFE ID of who asks
	// Joins is the assignment of the same taskrunner beside which the hosts carry out its task too; empty: the assignment stands by itself.
	Joins string `json:"joins,omitempty"`
	JobTerms
}

// Assignment is a task that was handed to hosts.
type Assignment struct {
	Request

	Phase     Phase    `json:"phase"`
	Wants     string   `json:"wants,omitempty"` // what is waited for, in words
	Epoch     uint32   `json:"epoch,omitempty"` // counts placements; 0: there was none
	Passed    uint32   `json:"passed,omitempty"`
	Members   []Member `json:"members,omitempty"` // of the epoch, by index
	Avoid     []string `json:"avoid,omitempty"`   // hosts that refused in earlier epochs, sorted
	Verdict   Verdict  `json:"verdict,omitempty"` // empty until Ending
	Reason    string   `json:"reason,omitempty"`  // of the verdict
	CreatedMS int64    `json:"created_ms"`
	ChangedMS int64    `json:"changed_ms"`         // when the phase changed last
	Number    uint64   `json:"number,omitempty"`   // counts those that are over; 0: it is not
	EndedMS   int64    `json:"ended_ms,omitempty"` // when it got its verdict
	// Order is what the operator signed, for hosts: they believe no SN about who asks for what. It goes when the assignment is over.
	Order *ledger.Order `json:"order,omitempty"`
	// Approvals are what operators have said on the parts of hosts whose owners ask, oldest first, for these hosts. They go with the order.
	Approvals []Approval `json:"approvals,omitempty"`
	// Detailed has the assignment's records in the ledger say what it joins, and of its members in which group they were and for how many they
	// counted. Its entry in the log said so; those of before did not.
	Detailed bool `json:"detailed,omitempty"`
	// Strict has a host be one member of it, what has succeeded be judged so, and a host say more than once what a member waits for. Its entry in
	// the log said so; by those of before it was otherwise.
	Strict bool `json:"strict,omitempty"`
	// Shares has its hosts be several members, of one peer each, and it have an end: its task is a job.
	Shares bool `json:"shares,omitempty"`
	End    End  `json:"end,omitempty"` // of a job that has a verdict
	// ExitsCount has a job that is asked to end be judged by how its members end within its grace. Its entry in the log said so; by those of before it has
	// succeeded at once.
	ExitsCount bool `json:"exits_count,omitempty"`
	// StoppedMS is when such a job was first asked to end; 0: it was not, in this epoch.
	StoppedMS int64 `json:"stopped_ms,omitempty"`
	// Asked is what was signed then: the member may have become something else by the verdict.
	Asked AskedEnd `json:"asked,omitzero"`
	// PlacedMS is when a job's epoch began, and ReadySinceMS since when all of its members are ready, or have ended; 0: they are not yet.
	PlacedMS     int64 `json:"placed_ms,omitempty"`
	ReadySinceMS int64 `json:"ready_since_ms,omitempty"`
	// LastEnd is which end a job has if it is not placed anew after its epoch was withdrawn, and LastWhy why, in words.
	LastEnd End    `json:"last_end,omitempty"`
	LastWhy string `json:"last_why,omitempty"`
}

// Live reports whether the assignment is not over.
func (a *Assignment) Live() bool { return a.Phase != Over }

// Open reports whether the assignment has no verdict.
func (a *Assignment) Open() bool { return a.Verdict == "" }

// Status is the state of the assignment's taskrunner in the original's words.
func (a *Assignment) Status() string {
	switch {
	case a == nil || a.Verdict == Cancelled:
		return "IDLE"
	case a.Verdict == Succeeded:
		return "COMPLETE"
	case a.Verdict == Failed:
		return "ERROR"
	case a.Phase == Running:
		return "RUNNING"
	}
	return "ASSIGNED"
}

// Started reports whether members of a group may start: their barrier is passed.
func (a *Assignment) Started(group string) bool {
	i := a.group(group)
	return a.Phase == Running && i >= 0 && (!a.InOrder || i < int(a.Passed))
}

func (a *Assignment) group(name string) int {
	return slices.IndexFunc(a.Groups, func(g Group) bool { return g.Name == name })
}

// Tally counts the peers of a group.
type Tally struct {
	Succeeded uint32 // they have
	Possible  uint32 // they have, or may still
	Running   uint32 // they have not ended
}

// Tally counts the peers of a group in the current epoch.
func (a *Assignment) Tally(group string) (t Tally) {
	for _, m := range a.Members {
		switch {
		case m.Group != group:
		case m.Succeeded():
			t.Succeeded += m.Peers
			t.Possible += m.Peers
		case !m.State.ended():
			t.Possible += m.Peers
			t.Running += m.Peers
		}
	}
	return t
}

// Met reports whether as many have succeeded as must, in all groups, or in those by which a job is done.
func (a *Assignment) Met() bool {
	if a.Shares {
		return a.Phase == Running && jobDone(a)
	}
	return a.Phase == Running && !slices.ContainsFunc(a.Groups, func(g Group) bool { return a.Tally(g.Name).Succeeded < g.Least })
}

// Possible reports whether as many can succeed as must, in all groups of the current epoch. A job can also fail by whom it needs until it is done.
func (a *Assignment) Possible() bool {
	if a.Shares {
		return jobCan(a)
	}
	return !slices.ContainsFunc(a.Groups, func(g Group) bool { return a.Tally(g.Name).Possible < g.Least })
}

// Settled reports whether nothing of the current epoch can run any more: each member is cleaned, or lost with its lease over.
func (a *Assignment) Settled(atMS int64) bool {
	return !slices.ContainsFunc(a.Members, func(m Member) bool { return !m.settled(SettlesMS(a), atMS) })
}

// Due reports whether the next barrier can be passed: for the first, all who still can have prepared; for the others, in order, all of the
// last group that started are ready.
func (a *Assignment) Due() bool {
	if !a.Possible() {
		return false
	}
	switch {
	case a.Phase == Preparing:
		return !slices.ContainsFunc(a.Members, Member.early)
	case a.Phase == Running && a.InOrder && int(a.Passed) < len(a.Groups):
		last := a.Groups[a.Passed-1].Name
		return !slices.ContainsFunc(a.Members, func(m Member) bool { return m.Group == last && (m.State == Prepared || m.State == Started) })
	}
	return false
}

// copied returns an assignment that may be changed. Slices of the request never are.
func (a *Assignment) copied() *Assignment {
	c := *a
	c.Members, c.Avoid = slices.Clone(a.Members), slices.Clone(a.Avoid)
	return &c
}

// enter begins a phase.
func (a *Assignment) enter(p Phase, wants string, atMS int64) {
	a.Phase, a.Wants, a.ChangedMS = p, wants, atMS
}

// end gives the verdict, if there is none: the first one stands. A job's comes with its end.
func (a *Assignment) end(v Verdict, end End, reason string, atMS int64) bool {
	if !a.Open() {
		return false
	}
	a.Verdict, a.Reason, a.EndedMS = v, reason, atMS
	if a.Shares {
		a.End = end
	}
	a.enter(Ending, "", atMS)
	return true
}

// ValidID reports whether s can be the ID of an assignment.
func ValidID(s string) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// Check holds a request to its bounds.
func (q *Request) Check() error {
	bad := func(format string, args ...any) error {
		return illegal(Bad, "", "assignment %s: "+format, append([]any{clipped(q.ID)}, args...)...)
	}
	switch {
	case !ValidID(q.ID):
		return bad("its ID is no number of 64 bits")
	case q.Taskrunner == "" && len(q.Hosts) == 0:
		return bad("it has neither a taskrunner nor hosts")
	case q.Digest != "" && !validDigest(q.Digest):
		return bad("the digest of its task is no SHA-256")
	case len(q.Hosts) > MaxMembers || !slices.IsSorted(q.Hosts) || len(slices.Compact(slices.Clone(q.Hosts))) != len(q.Hosts):
		return bad("its %d hosts are more than %d, or not sorted, or one is named twice", len(q.Hosts), MaxMembers)
	case slices.ContainsFunc(q.Hosts, func(h string) bool { return !naming.ValidNode(h) }):
		return bad("a host's name is none of a node")
	case q.Retries > maxRetries || q.ExpiresMS < 0 || q.TimeoutMS < 0 || q.TimeoutMS > maxTimeoutMS:
		return bad("%d retries or %d ms are out of bounds: at most %d, and 30 days", q.Retries, q.TimeoutMS, maxRetries)
	case !visible(q.By, maxSPIFFEID):
		return bad("who asks is out of bounds")
	case q.Joins != "" && (!ValidID(q.Joins) || q.Joins == q.ID || q.Taskrunner == "" || len(q.Hosts) == 0):
		return bad("it joins %s, and has no taskrunner or names no hosts", clipped(q.Joins))
	}
	if err := checkTerms(q.JobTerms, bad); err != nil {
		return err
	}
	return q.checkGroups(bad)
}

func (q *Request) checkGroups(bad func(format string, args ...any) error) error {
	names, peers, least := map[string]bool{}, uint64(0), uint64(0)
	for _, g := range q.Groups {
		if !naming.ValidNode(g.Name) || names[g.Name] {
			return bad("a group has a bad name, or that of another")
		}
		if g.Peers == 0 || g.Peers > MaxMembers || g.Least > g.Peers {
			return bad("group %s has %d peers of which %d must succeed: give 1 to %d", g.Name, g.Peers, g.Least, MaxMembers)
		}
		if err := checkNeeds(g, bad); err != nil {
			return err
		}
		names[g.Name] = true
		peers, least = peers+uint64(g.Peers), least+uint64(g.Least)
	}
	if len(q.Groups) == 0 || len(q.Groups) > maxGroups || least == 0 && q.LivesMS == 0 || peers > MaxMembers {
		return bad("%d groups of %d peers are out of bounds, or none must succeed: at most %d groups of %d peers", len(q.Groups), peers, maxGroups, MaxMembers)
	}
	return nil
}

// Assign hands a finalised task to hosts, by an operator's order, which is kept as it is. An ID that was used before changes nothing.
func (b *Board) Assign(q Request, order *ledger.Order, atMS int64) (*Board, error) {
	if err := q.Check(); err != nil {
		return b, err
	}
	b = b.Whole()
	if b.Assignments[q.ID] != nil {
		return b, nil
	}
	t, err := b.knownTask(q.Task)
	switch {
	case err != nil:
		return b, err
	case q.Task == Root:
		return b, illegal(Bad, "assign a task of your own", "task %s has nothing to carry out", Root)
	case !t.Final():
		return b, illegal(Unfinished, "finalise it: swarmctl finalize task "+t.Name, "task %s is not finalised", t.Name)
	case q.Digest != "" && q.Digest != t.Digest:
		return b, illegal(Stale, "read it again: swarmctl get task body "+t.Name, "task %s has another digest: %s", t.Name, t.Digest)
	}
	if err := fitsTask(&q, t); err != nil {
		return b, err
	}
	if q.Taskrunner != "" {
		if err := b.hasTaskrunner(q.Taskrunner); err != nil {
			return b, err
		}
		if err := takenBy(b, &q, t); err != nil {
			return b, err
		}
	}
	if n := len(b.LiveIDs()); n >= MaxLive {
		remedy := "wait until one is over, or reset a taskrunner"
		if t.Type == RunJob {
			remedy = "wait until one is over, or end a job: swarmctl list jobs, swarmctl cancel job NAME"
		}
		return b, illegal(Full, remedy, "%d assignments are live already", n)
	}
	q.Digest = t.Digest
	next := b.draft()
	next.Assignments[q.ID] = &Assignment{Request: q, Phase: Waiting, CreatedMS: atMS, ChangedMS: atMS, Order: order, Shares: t.Type == RunJob}
	if q.Joins == "" {
		next.setAssignment(q.Taskrunner, q.ID)
	}
	return next, nil
}

// Cancel ends an assignment that has no verdict yet, and those that join it.
func (b *Board) Cancel(id, why string, atMS int64) (*Board, error) {
	b = b.Whole()
	old := b.Assignments[id]
	if old == nil {
		return b, illegal(Unknown, "see: swarmctl list assignments, and of jobs: swarmctl list jobs", "no assignment %s", clipped(id))
	}
	if !text(why, MaxText) {
		return b, illegal(Bad, "give one line of text", "the reason for the end of assignment %s is out of bounds", id)
	}
	next := b.draft()
	changed := cancelIn(next, old, why, atMS)
	for _, joined := range Joined(b, id) {
		changed = cancelIn(next, joined, why, atMS) || changed
	}
	if !changed {
		return b, nil
	}
	return next, nil
}

// cancelIn works on a draft.
func cancelIn(b *Board, old *Assignment, why string, atMS int64) bool {
	a := old.copied()
	if !a.end(Cancelled, EndCancelled, why, atMS) {
		return false
	}
	b.Assignments[a.ID] = a
	return true
}

// LiveIDs are the assignments that are not over, those first that were made first.
func (b *Board) LiveIDs() []string {
	var live []string
	for _, id := range slices.Sorted(maps.Keys(b.Whole().Assignments)) {
		if b.Assignments[id].Live() {
			live = append(live, id)
		}
	}
	slices.SortStableFunc(live, func(x, y string) int { return cmp.Compare(b.Assignments[x].CreatedMS, b.Assignments[y].CreatedMS) })
	return live
}
