package bucket

import (
	"maps"
	"time"
)

// Set is a bucket for each of many, whose full ones it forgets. The zero value has none. It is not safe for concurrent use.
type Set[K comparable] struct {
	by    map[K]Bucket
	swept time.Time // when full ones were last thrown away
}

// Take takes n from one's bucket as Bucket.Take does. Beyond most buckets with something lacking it takes nothing of a new one, and known is false.
func (s *Set[K]) Take(now time.Time, most int, one K, of Rate, n int) (wait time.Duration, known bool) {
	if len(s.by) >= most && now.Sub(s.swept) >= time.Second {
		s.swept = now
		maps.DeleteFunc(s.by, func(_ K, b Bucket) bool { return b.Full(now) })
	}
	b, known := s.by[one]
	if !known && len(s.by) >= most {
		return 0, false
	}
	if wait := b.Take(now, of, n); wait > 0 {
		return wait, true
	}
	if s.by == nil {
		s.by = map[K]Bucket{}
	}
	s.by[one] = b
	return 0, true
}

// Len is how many buckets are kept.
func (s *Set[K]) Len() int { return len(s.by) }
