// Package consent decides on a host whether it carries out what the swarm hands to it. It believes no SN about who asked: an assignment is
// held to the order that an operator signed, by this host's own trust bundle, and so is the word of whoever approves or refuses it. What the
// host's owner thinks of it a [Policy] says. What was received, decided, begun and ended stands in a [Journal] in the host's state directory.
//
// A rogue SN can so withhold an assignment from a host, end one, and hand an order to fewer or other hosts of the taskrunner where the
// operator named none. It can't have a host carry out what no operator asked for, another task, the same thing twice, or begin something later than
// the operator said, but for a job that the host has begun in time: its retries may come later, within its time-out.
package consent
