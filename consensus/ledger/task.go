package ledger

// Task is that an operator made a task. What it says is fixed by FinalTask.
type Task struct {
	Task  string `json:"task"`
	Type  string `json:"type"`
	By    string `json:"by,omitempty"` // SPIFFE ID
	Order *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (Task) Kind() string { return "task" }

// FinalTask fixes a task.
type FinalTask struct {
	Task   string `json:"task"`
	Digest string `json:"digest"` // hex SHA-256 of all that the task says
	Order  *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (FinalTask) Kind() string { return "final_task" }

// DeletedTask removes a task.
type DeletedTask struct {
	Task   string `json:"task"`
	Digest string `json:"digest,omitempty"` // empty: it was not finalised
	Order  *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (DeletedTask) Kind() string { return "deleted_task" }

// Assigned is that an operator handed a task to hosts.
type Assigned struct {
	Assignment string   `json:"assignment"` // its ID
	Task       string   `json:"task"`
	Digest     string   `json:"digest"`
	Taskrunner string   `json:"taskrunner,omitempty"`
	Hosts      []string `json:"hosts,omitempty"` // the only ones that may carry it out; none: those of the taskrunner
	By         string   `json:"by,omitempty"`    // SPIFFE ID
	// Groups are whom it needs. Records of before they were kept have none, and nothing of what follows.
	Groups    []Group `json:"groups,omitempty"`
	InOrder   bool    `json:"in_order,omitempty"`   // a group starts when the one before it is ready
	Retries   uint32  `json:"retries,omitempty"`    // how often it may be placed anew
	TimeoutMS int64   `json:"timeout_ms,omitempty"` // from the request to the verdict; 0: none
	ExpiresMS int64   `json:"expires_ms,omitempty"` // no host begins it later; 0: it does not expire
	Order     *Order  `json:"order,omitempty"`
	// Joins is the assignment beside which it carries out the same task; empty: none. Records of before it was kept have none either.
	Joins string `json:"joins,omitempty"`
	JobTerms
}

// JobTerms are what a job is asked to be, beside what every assignment is. Others have none.
type JobTerms struct {
	Done     string `json:"done,omitempty"`     // which groups must have succeeded, of those with a least; empty: all, main: the first, any: one
	ReadyMS  int64  `json:"ready_ms,omitempty"` // how long after members were placed all must be ready; 0: nobody waits for that
	LivesMS  int64  `json:"lives_ms,omitempty"` // how long after all were ready it has succeeded; 0: as Done says
	Together bool   `json:"together,omitempty"` // all members are on one host
	GraceMS  int64  `json:"grace_ms,omitempty"` // how long a member may take to end after it was asked to
	Stops    bool   `json:"stops,omitempty"`    // it has succeeded when a host of a member asks for its end
	Beside   string `json:"beside,omitempty"`   // the SL that runs rank 0 itself, and has asked for it; empty: hosts have all members
}

// Group is members of one kind that an assignment needs.
type Group struct {
	Name  string `json:"name"`
	Peers uint32 `json:"peers"`           // that are placed, at least
	Least uint32 `json:"least,omitempty"` // that must succeed
	Needs Needs  `json:"needs,omitzero"`  // of a job, what each member takes of its host
	// Ports are those of its host to which each member of a job listens, and FirstPorts those to which the first does besides.
	Ports      []uint32 `json:"ports,omitempty"`
	FirstPorts []uint32 `json:"first_ports,omitempty"`
}

// Needs are what a member of a job takes of its host. 0: it does not say.
type Needs struct {
	MilliCPU uint32 `json:"milli_cpu,omitempty"` // thousandths of a CPU
	Memory   uint64 `json:"memory,omitempty"`    // bytes
	GPUs     uint32 `json:"gpus,omitempty"`
	Disk     uint64 `json:"disk,omitempty"` // bytes
}

// Kind implements Body.
func (Assigned) Kind() string { return "assigned" }

// Approval is an operator's word on whether a host carries out an assignment. The host decides whether that counts.
type Approval struct {
	Assignment string `json:"assignment"`
	Task       string `json:"task"`
	Digest     string `json:"digest"`
	Host       string `json:"host"`
	Refused    bool   `json:"refused,omitempty"`
	Reason     string `json:"reason,omitempty"`
	By         string `json:"by"` // SPIFFE ID
	Order      *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (Approval) Kind() string { return "approval" }

// EndedAssignment is the verdict on an assignment.
type EndedAssignment struct {
	Assignment string   `json:"assignment"`
	Task       string   `json:"task"`
	Digest     string   `json:"digest"`
	Verdict    string   `json:"verdict"`           // succeeded, failed or cancelled
	Reason     string   `json:"reason,omitempty"`  // in words
	Members    []Member `json:"members,omitempty"` // of its last epoch, as they were then
	Order      *Order   `json:"order,omitempty"`   // the operator's that cancelled it; none: the leader judged
	// Epoch is that of its members. Records of before it was kept have none.
	Epoch uint32 `json:"epoch,omitempty"`
	// End is why a job has ended, in one word, of those that an assignment's end has in the API. Others have none.
	End string `json:"end,omitempty"`
	// Withdrawn is, of a job, that its last epoch was withdrawn before: what members have become since then counts for no success.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Asked is, of a job that was ended by a stop file, what a host has signed that asked for that, if the member has become something else since.
	Asked *Asked `json:"asked,omitempty"`
}

// Kind implements Body.
func (EndedAssignment) Kind() string { return "ended_assignment" }

// Asked is what a host has signed of a member when it asked for the end of its job.
type Asked struct {
	Member    uint32 `json:"member"` // its place in EndedAssignment.Members
	State     string `json:"state"`
	Code      int32  `json:"code,omitempty"`
	Signature string `json:"signature"` // as Member.Signature, with Asks stop
}

// Member is one host's part in an assignment.
type Member struct {
	Node   string `json:"node"`
	PeerID string `json:"peer_id"`
	State  string `json:"state"`
	Code   int32  `json:"code,omitempty"` // exit code
	// Group is the one that it was in, and Peers are for how many it counts there. Records of before they were kept have neither.
	Group string `json:"group,omitempty"`
	Peers uint32 `json:"peers,omitempty"`
	// Signature is by the host's node key over identity.MemberMessage of state, code, group, peers and what it asks, base64; empty: the host did not sign
	// it. Hosts of before signed neither group nor peers.
	Signature string `json:"signature,omitempty"`
	// Asks is what the host has asked of a job: stop, its end; stop_fail, that it fails; empty: nothing.
	Asks string `json:"asks,omitempty"`
}
