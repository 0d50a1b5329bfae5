// Package runswarm carries out RUN_SWARM: on a host it starts the SLs of the host's profile, each with the task's program.
package runswarm
