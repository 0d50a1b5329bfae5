package bucket_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/bucket"
)

func TestBucket(t *testing.T) {
	rate := bucket.Rate{Burst: 3, Each: 10 * time.Second}
	var b bucket.Bucket
	now := time.Unix(1000, 0)
	for _, x := range []struct {
		after time.Duration
		n     int
		wait  time.Duration
	}{
		{0, 1, 0},
		{0, 2, 0},
		{0, 1, 10 * time.Second},
		{4 * time.Second, 1, 6 * time.Second}, // what was refused took nothing
		{6 * time.Second, 1, 0},
		{0, 1, 10 * time.Second},
		{time.Hour, 3, 0}, // no more than the burst comes back
		{0, 1, 10 * time.Second},
		{time.Hour, 4, 10 * time.Second},
	} {
		now = now.Add(x.after)
		if got := b.Take(now, rate, x.n); got != x.wait {
			t.Errorf("%d at %d: wait %s, want %s", x.n, now.Unix(), got, x.wait)
		}
	}
	if !b.Full(now) {
		t.Error("a bucket is not full after an hour")
	}
	b.Take(now, rate, 1)
	if b.Full(now.Add(9*time.Second)) || !b.Full(now.Add(10*time.Second)) {
		t.Error("a token does not come back after its time")
	}
}

func TestSetForgetsFullBuckets(t *testing.T) {
	rate := bucket.Rate{Burst: 2, Each: 10 * time.Second}
	var s bucket.Set[string]
	now := time.Unix(1000, 0)
	take := func(who string) (time.Duration, bool) { return s.Take(now, 2, who, rate, 1) }
	for _, who := range []string{"a", "a", "b"} {
		if wait, known := take(who); wait != 0 || !known {
			t.Fatalf("%s: %s, %t", who, wait, known)
		}
	}
	if wait, known := take("a"); wait != 10*time.Second || !known {
		t.Errorf("a third of a: %s, %t", wait, known)
	}
	if _, known := take("c"); known || s.Len() != 2 {
		t.Errorf("beyond the most that are kept: %t, %d", known, s.Len())
	}
	now = now.Add(10 * time.Second) // b is full again
	if wait, known := take("c"); wait != 0 || !known || s.Len() != 2 {
		t.Errorf("in place of a full one: %s, %t, %d", wait, known, s.Len())
	}
}

func TestPlaces(t *testing.T) {
	var p bucket.Places[string]
	first, ok := p.Take("a", 2)
	_, again := p.Take("a", 2)
	if _, more := p.Take("a", 2); !ok || !again || more {
		t.Errorf("a takes %t, %t, %t", ok, again, more)
	}
	if _, ok := p.Take("b", 2); !ok || p.Taken() != 3 {
		t.Errorf("b takes %t; %d in all", ok, p.Taken())
	}
	first()
	if _, ok := p.Take("a", 2); !ok || p.Taken() != 3 {
		t.Errorf("once one is free: %t; %d in all", ok, p.Taken())
	}
}
