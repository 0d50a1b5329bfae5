package state

// WithRoom returns the state with another bound than MaxStateBytes.
func (s *State) WithRoom(bytes int) *State {
	n := *s
	n.room = bytes
	return &n
}
