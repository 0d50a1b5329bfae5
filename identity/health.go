package identity

import "time"

// RenewalOverdue reports whether a certificate of this life should have been replaced by now: a third of its life or
// less is left. Sources renew at half of it. A certificate without a life is overdue.
func RenewalOverdue(notBefore, notAfter, now time.Time) bool {
	return !now.Before(RenewalDeadline(notBefore, notAfter))
}

// RenewalDeadline is the first moment at which RenewalOverdue holds: two thirds of the life.
func RenewalDeadline(notBefore, notAfter time.Time) time.Time {
	return notAfter.Add(-notAfter.Sub(notBefore) / 3)
}
