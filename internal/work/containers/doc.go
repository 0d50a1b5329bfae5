// Package containers carries out RUN_SWARM in containers: on a host it starts the SLs of the host's profile, each with the task's program
// in a container beside it.
package containers
