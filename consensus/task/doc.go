// Package task is what a swarm agrees on about tasks: tasks, taskrunners, assignments of tasks to hosts, and the members of these. It says
// which steps are legal, and starts nothing.
//
// It is pure, as consensus/state is, which keeps a [Board] and has its steps in commands: no clock, no identifiers of its own. A *Board is
// never changed once it was returned. A step that is not legal leaves it as it is and returns a [*Refusal].
//
// An assignment goes WAITING → PREPARING → RUNNING → ENDING → OVER. Its members are placed on hosts in epochs: an epoch that is withdrawn
// goes back to WAITING, and the next one is placed when nothing of the old one can run any more. What a host may do follows from the phase:
// prepare in PREPARING, start once the barrier of its group is passed, stop and clean up in every other.
package task
