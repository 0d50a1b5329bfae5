// Package merge is the arithmetic of combining models: the layout of the flat
// parameter vector, its division into leaves and shards, the merge methods,
// and the digests that name the result.
//
// It is pure: no I/O, no clock, no goroutine. The same inputs give the same
// bytes on every machine, which is what makes digests comparable.
package merge
