// Package ranks starts the ranks of an SL: rank 0 is the program that the SL runs itself, beside its bridge, and the others are members of a job
// that SWOPs run. If one of them ends before the training does all are ended, and started again together.
package ranks
