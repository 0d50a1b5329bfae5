// Package survive holds tests of Swarm Learning nodes whose daemon dies while their program lives on in a container: real
// daemons, a real engine.
package survive
