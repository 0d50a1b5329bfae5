// Package client is the Go client of a Swarm Network's API, for SL and SWOP daemons and for swarmctl.
//
// A [Client] knows several SNs and speaks to one of them. It learns the list from every SN that answers, moves on when
// its SN dies or has no leader, and repeats what may be repeated until the caller's context ends; why it waits it tells
// through Config.OnWait. It pins the swarm ID that it learns first. Errors carry a reason and a remedy ([Reason],
// [Remedy]): match on those, never on text.
package client
