package state

// WithRoom returns the state with another bound than MaxStateBytes.
func (s *State) WithRoom(bytes int) *State {
	n := *s
	n.sums.room = bytes
	return &n
}

// Clone is what a command works on.
func (s *State) Clone() *State { return cloneState(s) }

// Clone is what a command changes of a contract.
func (c *Contract) Clone() *Contract { return cloneContract(c) }
