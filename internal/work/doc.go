// Package work carries out on a host what the swarm agreed on. It compares the assignments that are committed with what there is on the
// host, by label, and has executors, one for each type of tasks, do what is to be done next. It remembers nothing that it could not find
// again: a restarted host adopts what lives.
package work
