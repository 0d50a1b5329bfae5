// Package e2e holds tests of whole swarms: real swarmd processes on loopback addresses with real ML programs, started in
// any order, killed, restarted, and given what they must refuse. It has no code of its own.
//
// SWARM_BIN names a directory with a swarmd to test; without it one is built once. The programs need numpy
// only; SWARM_PYTHON names another interpreter than python3.
package e2e
