package consensus

// Status is how a server and its log fare.
type Status struct {
	Leads      bool // as IsLeader
	HasLeader  bool // it leads, or follows one
	Term       uint64
	Committed  uint64 // index of the last entry that is known to be committed
	Applied    uint64 // index of the last command in View
	LogEntries int
	LogBytes   int // roughly what the entries take on disk
	Voters     int // of the newest configuration that this server knows
	Servers    int // likewise, those that do not vote among them
	Queue      int // commands and reads that wait for raft here
}

// Status looks at this server as of now.
func (g *Group) Status() Status {
	r := g.replica
	_, _, has := r.leader()
	s := Status{
		Leads: r.leads(), HasLeader: has, Term: r.raft.CurrentTerm(), Committed: r.raft.CommitIndex(), Applied: r.index(), Voters: len(r.voters()),
		Servers: len(r.servers()), Queue: int(r.calls.Load()),
	}
	s.LogEntries, s.LogBytes = g.storage.growth.Size()
	return s
}
