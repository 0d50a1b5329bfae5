package identity_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
)

func TestRenewalOverdue(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		began, left time.Duration
		want        bool
	}{
		{0, time.Hour, false},
		{40*time.Minute - 1, 20*time.Minute + 1, false},
		{40 * time.Minute, 20 * time.Minute, true},
		{2 * time.Hour, -time.Hour, true},
		{-time.Minute, time.Hour, false}, // not valid yet is another matter
		{0, 0, true},
	} {
		begin, end := now.Add(-c.began), now.Add(c.left)
		if got := identity.RenewalOverdue(begin, end, now); got != c.want {
			t.Errorf("began %s ago, %s left: got %v, want %v", c.began, c.left, got, c.want)
		}
		if d := identity.RenewalDeadline(begin, end); now.Before(d) == c.want {
			t.Errorf("began %s ago, %s left: deadline %s", c.began, c.left, d)
		}
	}
}
