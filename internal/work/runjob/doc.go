// Package runjob carries out RUN_JOB: on a host it starts members of a job, each the program that the job's framework has for its place, as a
// process that outlives who started it, or as a container.
package runjob
