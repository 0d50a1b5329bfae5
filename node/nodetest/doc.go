// Package nodetest runs a whole swarm in one process on virtual time: N SNs and M SLs as node.New composes them, joined by a network in
// memory whose faults are verbs, and small programs that train by adding known numbers. Only tests import it, and they use it inside
// testing/synctest.
//
// Nothing of the swarm's logic is imitated: what is replaced is TCP, libp2p, the stores of raft, the container engine, and the unix socket
// between a node and its program. TLS and HTTP run over the streams in memory, so a cut API connection is found by its pings, as in life.
//
// Every swarm ends with the same checks, whatever happened to it: see Swarm.End.
package nodetest
