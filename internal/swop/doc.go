// Package swop joins a host that carries out tasks with the swarm: it shows the host what the swarm wants of it, and tells the swarm with
// each heartbeat what has become of that. It has no logic of tasks: that is internal/work.
package swop
