package task

import (
	"bytes"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/naming"
)

// Bounds of approvals.
const (
	// MaxApprovals is how many words there are on one host's part in an assignment, each by another operator. One more takes the place of an
	// older one: nobody can keep others from being heard by speaking first.
	MaxApprovals = 16
	// MaxApprovalBytes bounds those of all live assignments together: their requests and certificates. Operators of one trust domain have at
	// most half of it, and one operator a quarter.
	MaxApprovalBytes = 16 << 20

	maxApprovalRequest = 4 << 10
)

// Approval is an operator's word on whether a host carries out an assignment. Nothing but the host itself goes by it, which has the order
// proven and knows whose word counts.
type Approval struct {
	Number uint64        `json:"number"` // counts those of the assignment
	Host   string        `json:"host"`
	Refuse bool          `json:"refuse,omitempty"`
	Reason string        `json:"reason,omitempty"`
	By     string        `json:"by,omitempty"` // SPIFFE ID
	AtMS   int64         `json:"at_ms"`
	Order  *ledger.Order `json:"order,omitempty"`
}

// bytes is about what an approval takes.
func (a *Approval) bytes() int {
	n := len(a.Reason) + len(a.By) + 1024
	if a.Order != nil {
		n += len(a.Order.Request) + len(a.Order.Signature)
		for _, cert := range a.Order.Chain {
			n += len(cert)
		}
	}
	return n
}

func (a *Approval) check() error {
	switch {
	case !naming.ValidNode(a.Host):
		return illegal(Bad, "", "%s can't be the name of a host", clipped(a.Host))
	case !text(a.Reason, MaxText) || !visible(a.By, maxSPIFFEID) || a.Order != nil && len(a.Order.Request) > maxApprovalRequest:
		return illegal(Bad, "give one line of at most 256 bytes", "the approval or its reason is out of bounds")
	}
	return nil
}

// Approve adds an operator's word on a host's part in an assignment, which is named by its ID, task, digest and taskrunner. It replaces what
// that operator said on it before, and changes nothing if it is that very word.
func (b *Board) Approve(of Request, word Approval) (*Board, error) {
	if err := word.check(); err != nil {
		return b, err
	}
	b = b.Whole()
	old, id := b.Assignments[of.ID], of.ID
	switch {
	case old == nil || old.Task != of.Task || old.Taskrunner != of.Taskrunner:
		return b, noPart(of)
	case !old.Open():
		return b, illegal(Stale, "", "assignment %s is over: %s", id, old.Verdict)
	case of.Digest != old.Digest:
		return b, illegal(Stale, "read it again: swarmctl get task body "+old.Task, "task %s has another digest: %s", old.Task, old.Digest)
	case word.By == old.By && word.By != "":
		return b, illegal(Bad, "have somebody else do it, with an ID of their own: swarmctl invite swci/NAME", "%s has asked for assignment %s, and can't approve or refuse it", word.By, id)
	case !slices.ContainsFunc(old.Members, func(m Member) bool { return m.Node == word.Host && m.early() }):
		return b, illegal(Stale, "see who takes part in it: swarmctl get taskrunner peer status "+old.Taskrunner, "nothing of assignment %s waits on %s", id, word.Host)
	}
	a := old.copied()
	if !a.hear(word) {
		return b, nil
	}
	next := b.draft()
	next.Assignments[id] = a
	if err := roomFor(next, word.By); err != nil {
		return b, err
	}
	return next, nil
}

// noPart is the refusal of a word on an assignment that there is not, as it is named. A job has no taskrunner.
func noPart(of Request) error {
	if of.Taskrunner == "" {
		return illegal(Unknown, "see which there are: swarmctl list approvals, swarmctl list jobs", "there is no assignment %s of task %s without a taskrunner", clipped(of.ID), clipped(of.Task))
	}
	return illegal(Unknown, "see which there are: swarmctl list taskrunners", "taskrunner %s has no assignment %s of task %s", clipped(of.Taskrunner), clipped(of.ID), clipped(of.Task))
}

// hear takes a word. The same one is taken again if it was signed anew: the one before may have expired.
func (a *Assignment) hear(word Approval) (changed bool) {
	if n := len(a.Approvals); n > 0 {
		word.Number = a.Approvals[n-1].Number
	}
	word.Number++
	of := func(x Approval) bool { return x.Host == word.Host && x.By == word.By }
	if i := slices.IndexFunc(a.Approvals, of); i >= 0 {
		old := a.Approvals[i]
		if old.Refuse == word.Refuse && old.Reason == word.Reason && sameOrder(old.Order, word.Order) {
			return false
		}
		a.Approvals = slices.Delete(slices.Clone(a.Approvals), i, i+1)
	} else if words := a.approvals(word.Host); len(words) >= MaxApprovals {
		gone := yielding(words)
		a.Approvals = slices.DeleteFunc(slices.Clone(a.Approvals), func(x Approval) bool { return x.Number == gone })
	}
	a.Approvals = append(slices.Clone(a.Approvals), word)
	return true
}

// sameOrder reports whether a word is one that was taken before: no nonce is used twice.
func sameOrder(x, y *ledger.Order) bool {
	return x == nil && y == nil || x != nil && y != nil && bytes.Equal(x.Nonce, y.Nonce) && bytes.Equal(x.Signature, y.Signature)
}

// yielding is the number of the word that gives way to another: the oldest one of the trust domain that has the most, so that operators of one
// organisation do not shut out those of another.
func yielding(words []Approval) (number uint64) {
	of := map[string]int{}
	for _, x := range words {
		of[domain(x.By)]++
	}
	most := 0
	for _, x := range words {
		if n := of[domain(x.By)]; n > most {
			most, number = n, x.Number
		}
	}
	return number
}

// domain is the trust domain of a SPIFFE ID.
func domain(id string) string {
	d, _, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
	return d
}

// roomFor refuses an operator's words that would take more than its share.
func roomFor(b *Board, by string) error {
	for _, share := range []struct {
		whose string
		most  int
		in    func(other string) bool
	}{
		{by, MaxApprovalBytes / 4, func(other string) bool { return other == by }},
		{"operators of " + domain(by), MaxApprovalBytes / 2, func(other string) bool { return domain(other) == domain(by) }},
		{"all operators", MaxApprovalBytes, func(string) bool { return true }},
	} {
		if approvalBytes(b, share.in) > share.most {
			return illegal(Full, "wait until other assignments are over", "the approvals by %s would take more than %d bytes", share.whose, share.most)
		}
	}
	return nil
}

// approvals are the words on one host's part, oldest first.
func (a *Assignment) approvals(host string) (all []Approval) {
	for _, x := range a.Approvals {
		if x.Host == host {
			all = append(all, x)
		}
	}
	return all
}

// lastWord is the number of the last word on a host's part; 0: there was none.
func (a *Assignment) lastWord(host string) (n uint64) {
	for _, x := range a.Approvals {
		if x.Host == host {
			n = x.Number
		}
	}
	return n
}

// approvalBytes is about what the approvals of some operators take.
func approvalBytes(b *Board, in func(by string) bool) (n int) {
	for _, a := range b.Assignments {
		for i := range a.Approvals {
			if in(a.Approvals[i].By) {
				n += a.Approvals[i].bytes()
			}
		}
	}
	return n
}

func (a *Assignment) checkApprovals() error {
	of, last := map[string]int{}, uint64(0)
	for i := range a.Approvals {
		x := &a.Approvals[i]
		if x.Number <= last {
			return illegal(Bad, "", "assignment %s has approvals in no order", a.ID)
		}
		last = x.Number
		if of[x.Host]++; of[x.Host] > MaxApprovals || x.check() != nil || a.Phase == Over {
			return illegal(Bad, "", "assignment %s has a bad approval of %s, or too many", a.ID, clipped(x.Host))
		}
	}
	return nil
}
