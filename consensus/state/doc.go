// Package state is the replicated state of a swarm: its nodes, its training contracts, their sessions and rounds.
//
// It is pure. [State.Apply] takes a command and returns the next state; the same commands in the same order give the
// same bytes on every node, for ever. So nothing in here reads a clock, makes an identifier or draws a random number:
// whoever proposes a command puts times (milliseconds since the epoch) and identifiers into it. A command that is
// rejected is a normal result: an [*Error] with a stable reason, and the state stays as it was.
//
// A *State is never changed once it was returned, so any number of goroutines may read one without a lock. Readers must
// not write to the maps and slices in it.
package state
