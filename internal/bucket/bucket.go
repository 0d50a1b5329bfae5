// Package bucket bounds how often something is done, some times at once, then once in a while, and how much of it at a time.
package bucket

import "time"

// Rate is how often.
type Rate struct {
	Burst int           // at once
	Each  time.Duration // one more after so long
}

// Bucket is what has been taken of a Rate. The zero value is a full one. It is not safe for concurrent use.
type Bucket struct{ full time.Time } // when nothing of it is lacking any more

// Take takes n and returns 0, or takes nothing and returns how long it is until n can be taken. n above the rate's burst never can.
func (b *Bucket) Take(now time.Time, of Rate, n int) (wait time.Duration) {
	full := b.full
	if full.Before(now) {
		full = now
	}
	full = full.Add(time.Duration(n) * of.Each)
	if wait := full.Sub(now) - time.Duration(of.Burst)*of.Each; wait > 0 {
		return wait
	}
	b.full = full
	return 0
}

// Full reports whether nothing is lacking: such a bucket is as good as a new one.
func (b *Bucket) Full(now time.Time) bool { return !b.full.After(now) }
