package tasks

import "google.golang.org/protobuf/proto"

// maxAnswer bounds what an answer has of assignments, in bytes: the largest assignment with its hosts and members takes a little more than half.
// What does not fit is left out, and its number said.
const maxAnswer = 1 << 20

// room is how many bytes an answer may still take.
type room int

// take reports whether there is room for a part of an answer, which then has it.
func (r *room) take(part proto.Message) bool {
	const field = 8 // bytes before it, at most
	n := room(proto.Size(part) + field)
	if n > *r {
		return false
	}
	*r -= n
	return true
}
