// Package spire holds tests of whole swarms on real SPIRE: servers and agents that rotate, fail, federate and take back
// what they gave, and swarmd processes that must go on, wait or be cut off. It has no code of its own.
//
// SWARM_BIN names a directory with swarmd, swarmctl, spire-server and spire-agent. Tests that end in ForMinutes
// run only with SWARM_TEST_LONG=1.
package spire
