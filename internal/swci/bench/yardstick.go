package bench

import (
	"context"
	"time"
)

const (
	// yardTime is how long TLS is measured at a time.
	yardTime = 300 * time.Millisecond
	// yardEvery is how long the rounds go on between two measurements, but for the round in which it passes.
	yardEvery = time.Second
)

// yardstick is the speed of TLS while rounds are timed: before the first, after the last, and about once a second in between.
// What a shared machine can do changes within seconds, so each round is compared with what stood next to it.
type yardstick struct {
	speed func(context.Context, time.Duration) (float64, error) // TLSSpeed

	last   time.Time
	marks  []int     // after how many rounds
	speeds []float64 // bytes per second, one for each mark
}

// mark measures after so many rounds, if it is time or must be.
func (y *yardstick) mark(ctx context.Context, rounds int, must bool) error {
	if !must && time.Since(y.last) < yardEvery {
		return nil
	}
	v, err := y.speed(ctx, yardTime)
	if err != nil {
		return err
	}
	y.marks, y.speeds = append(y.marks, rounds), append(y.speeds, v)
	y.last = time.Now()
	return nil
}

// at returns the mean of the speeds before and after round i, which counts from 0.
func (y *yardstick) at(i int) float64 {
	next := 1
	for y.marks[next] <= i {
		next++
	}
	return (y.speeds[next-1] + y.speeds[next]) / 2
}
