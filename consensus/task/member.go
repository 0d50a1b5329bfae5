package task

import "slices"

// Times of hosts that are lost, in milliseconds.
const (
	// LeaseMS is how long a host runs members on without an answer of a leader. Then it ends them by itself.
	LeaseMS = 60_000
	// SettleMS is after which time nothing runs any more of a member that is lost: by then its lease is over, also that of a host which a
	// leader has answered that did not know yet that there is another.
	SettleMS = LeaseMS + 5_000
)

// SettlesMS is SettleMS for an assignment: members of a job have their grace beside it.
func SettlesMS(a *Assignment) int64 { return SettleMS + a.GraceMS }

// State is what has become of a member.
type State string

// The states of members. The first five follow each other, and each may be left out; of the others one is the last.
const (
	Placed   State = "placed"
	Asked    State = "asked" // the host knows of it, and its owner may be asked
	Prepared State = "prepared"
	Started  State = "started"
	Ready    State = "ready"
	Exited   State = "exited" // by itself, also if it never started
	Refused  State = "refused"
	Lost     State = "lost"    // its host is
	Stopped  State = "stopped" // its host has ended it, as the phase demanded
)

// stage is how far a state is; 0: it is none.
func (s State) stage() int {
	if s.ended() {
		return 6
	}
	return 1 + slices.Index([]State{Placed, Asked, Prepared, Started, Ready}, s)
}

// Known reports whether it is a state.
func (s State) Known() bool { return s.stage() > 0 }

// ended reports whether no other state follows.
func (s State) ended() bool { return s == Exited || s == Refused || s == Lost || s == Stopped }

// Member is one host's part in an epoch of an assignment.
type Member struct {
	Node   string `json:"node"`
	PeerID string `json:"peer_id"` // of the node when it was placed: another node of the name is not this one
	Group  string `json:"group"`
	Peers  uint32 `json:"peers"` // that it counts for
	State  State  `json:"state"`
	Code   int32  `json:"code,omitempty"` // exit code
	Text   string `json:"text,omitempty"` // the host's words to its state
	// Heard is the last approval that the words may be about. After another one there may be others to the same state.
	Heard uint64 `json:"heard,omitempty"`
	// Words is how often there were others without one.
	Words uint32 `json:"words,omitempty"`
	// Cleaned says that nothing of it is left on its host.
	Cleaned bool `json:"cleaned,omitempty"`
	// LostMS is when its host was lost before it was cleaned; 0: it was not. Its lease begins then.
	LostMS    int64 `json:"lost_ms,omitempty"`
	ChangedMS int64 `json:"changed_ms"` // when the state changed last
	// Signature is the host's of its state and code, base64; empty: the host signs none, or did not say it. It goes when the assignment is over.
	Signature string `json:"signature,omitempty"`
	// Asks is what the host has asked of the job with its state: nothing, AskStop or AskFail. It is signed with that.
	Asks string `json:"asks,omitempty"`
	Address
}

// maxSignature bounds a signature by a node key, in base64.
const maxSignature = 88

// early reports whether the host may still be asked.
func (m Member) early() bool { return m.State == Placed || m.State == Asked }

// Succeeded reports whether the member has done what it was there for.
func (m Member) Succeeded() bool { return m.State == Exited && m.Code == 0 }

// Bad reports whether the member has ended and not succeeded.
func (m Member) Bad() bool { return m.State.ended() && !m.Succeeded() }

// Status is the member's state in the original's words.
func (m Member) Status() string {
	switch {
	case m.Succeeded():
		return "COMPLETE"
	case m.Bad():
		return "ERROR"
	case m.early():
		return "ASSIGNED"
	}
	return "RUNNING"
}

func (m Member) settled(afterMS, atMS int64) bool {
	return m.Cleaned || m.LostMS > 0 && atMS-m.LostMS >= afterMS
}

// Report is what a member has become. Its host says so, but for Lost, which the leader says.
type Report struct {
	Member  uint32 `json:"member"` // index
	Node    string `json:"node"`
	State   State  `json:"state"`
	Code    int32  `json:"code,omitempty"`
	Text    string `json:"text,omitempty"`
	Cleaned bool   `json:"cleaned,omitempty"`
	// Signature is the host's, base64; empty: there is none.
	Signature string `json:"signature,omitempty"`
	// Asks is what the host asks of the job; empty: nothing.
	Asks string `json:"asks,omitempty"`
	// Address goes with Prepared.
	Address
}

// Takes reports whether the report would change the assignment: it is of its epoch and of the member's node, and news.
func (a *Assignment) Takes(epoch uint32, r Report) bool {
	_, news := a.after(epoch, r, a.ChangedMS+1)
	return news
}

// take changes a copy of an assignment.
func (a *Assignment) take(epoch uint32, r Report, atMS int64) bool {
	m, news := a.after(epoch, r, atMS)
	if news {
		a.Members[r.Member] = m
	}
	return news
}

// after is what a member comes to by a report, and whether that is news.
func (a *Assignment) after(epoch uint32, r Report, atMS int64) (m Member, news bool) {
	if epoch != a.Epoch || int(r.Member) >= len(a.Members) || a.Members[r.Member].Node != r.Node || !a.Live() {
		return Member{}, false
	}
	before := a.Members[r.Member]
	switch {
	case !mayAsk(a, &before, r) || !mayTell(a, r):
		return before, false
	case asksNow(a, &before, r):
		m = before
		m.Asks, m.Signature = r.Asks, r.Signature
		return m, true
	}
	if a.says(&before, r) {
		m = before
		if m.Text = r.Text; m.Heard == a.lastWord(before.Node) {
			m.Words++
		}
		m.Heard = a.lastWord(before.Node)
		return m, true
	}
	if before.Cleaned || r.State == before.State && !r.Cleaned || !text(r.Text, MaxText) || !visible(r.Signature, maxSignature) {
		return before, false
	}
	m = before
	if r.State == Lost && m.LostMS == 0 {
		m.LostMS = max(atMS, 1)
	}
	if !m.State.ended() && r.State.stage() > m.State.stage() && a.allows(&m, r) {
		m.State, m.Code, m.Text, m.ChangedMS, m.Signature, m.Asks = r.State, r.Code, r.Text, atMS, r.Signature, r.Asks
		if r.State == Prepared {
			m.Address = r.Address
		}
	}
	m.Cleaned = r.Cleaned && r.State != Lost && m.State.ended()
	return m, m != before
}

// maxWords bounds how often a host may say anew what a member waits for, beside once after each approval.
const maxWords = 8

// says reports whether a host says anew what a member waits for, in the same state. By entries of before it did so after an approval alone.
func (a *Assignment) says(before *Member, r Report) bool {
	if r.State != before.State || r.Text == before.Text || !text(r.Text, MaxText) || !a.allows(before, r) {
		return false
	}
	if r.State == Asked && a.lastWord(before.Node) > before.Heard {
		return true
	}
	return a.Strict && (r.State == Asked || r.State == Started) && before.Words < maxWords
}

// allows reports whether a member may come to a state that it has not passed, as the assignment stands.
func (a *Assignment) allows(m *Member, r Report) bool {
	switch r.State {
	case Asked, Prepared:
		return r.Code == 0 && a.Phase == Preparing
	case Started, Ready:
		return r.Code == 0 && a.Started(m.Group)
	case Exited:
		return r.Code != 0 || a.Started(m.Group) || m.State == Started || m.State == Ready
	case Refused:
		return m.early()
	case Lost:
		return true
	case Stopped:
		return a.Phase == Waiting || a.Phase == Ending
	case Placed:
	}
	return false
}
