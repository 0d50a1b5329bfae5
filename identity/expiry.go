package identity

import (
	"fmt"
	"log/slog"
	"time"
)

// expirySteps are how long before a certificate's end it is warned of, longest first.
var expirySteps = []struct {
	before time.Duration
	words  string
}{
	{7 * 24 * time.Hour, "in less than a week"},
	{24 * time.Hour, "in less than a day"},
	{time.Hour, "in less than an hour"},
}

// warnedLives is how many times as long as a step a certificate must live for the step to count: an SVID of an hour is
// always less than a day from its end.
const warnedLives = 3

// ExpiryWarning says in words that a certificate of this life nears its end, with a week, a day or an hour left, or has
// passed it; "" says that there is nothing to warn of. Certificates that live hardly longer than a step, as SVIDs that
// rotate do, are not warned of at that step.
func ExpiryWarning(notBefore, notAfter, now time.Time) string {
	switch step := expiryStep(notBefore, notAfter, now); {
	case step < 0:
		return ""
	case step == len(expirySteps):
		return "the certificate expired at " + inUTC(notAfter) + ": renew it"
	default:
		return fmt.Sprintf("the certificate expires %s, at %s: renew it", expirySteps[step].words, inUTC(notAfter))
	}
}

// expiryStep is the last step that was passed, -1 for none, len(expirySteps) for an expired certificate.
func expiryStep(notBefore, notAfter, now time.Time) int {
	if !now.Before(notAfter) {
		return len(expirySteps)
	}
	life, last := notAfter.Sub(notBefore), -1
	for i, s := range expirySteps {
		if life >= warnedLives*s.before && notAfter.Sub(now) < s.before {
			last = i
		}
	}
	return last
}

// ExpiryLog warns of a certificate's nearing end, each step once. The zero value is ready; it is not safe for concurrent
// use.
type ExpiryLog struct {
	notAfter time.Time
	step     int
	overdue  bool
}

// Check logs what is due now and reports whether there was anything. rotates says that something renews the
// certificate by itself, so that a delay of it is worth a warning of its own.
func (e *ExpiryLog) Check(st Status, rotates bool, now time.Time, log *slog.Logger) bool {
	if st.NotAfter.IsZero() {
		return false // there is no certificate: the source has none yet, or is closed
	}
	if !e.notAfter.Equal(st.NotAfter) {
		*e = ExpiryLog{notAfter: st.NotAfter, step: -1}
	}
	said := false
	if step := expiryStep(st.NotBefore, st.NotAfter, now); step > e.step {
		e.step, said = step, true
		log.Warn("identity nears its end", "warning", ExpiryWarning(st.NotBefore, st.NotAfter, now), "spiffe_id", st.ID.String(), "source", st.Origin)
	}
	if rotates && !e.overdue && e.step < len(expirySteps) && RenewalOverdue(st.NotBefore, st.NotAfter, now) {
		e.overdue, said = true, true
		log.Warn("identity is not renewed on schedule", "spiffe_id", st.ID.String(), "source", st.Origin, "expires", st.NotAfter, "problem", st.Problem)
	}
	return said
}

// Warnings are what Status says of a certificate's age, see [ExpiryLog.Check] for rotates.
func Warnings(notBefore, notAfter, now time.Time, rotates bool) []string {
	var out []string
	if w := ExpiryWarning(notBefore, notAfter, now); w != "" {
		out = append(out, w)
	}
	if now.Before(notBefore) {
		out = append(out, "the certificate "+validity(notBefore, notAfter, now))
	}
	if rotates && now.Before(notAfter) && RenewalOverdue(notBefore, notAfter, now) {
		out = append(out, fmt.Sprintf("the certificate is not renewed on schedule: less than a third of its life is left, it expires at %s", inUTC(notAfter)))
	}
	return out
}

// Validity says in words why a certificate of this life is not valid now, and what that tells of the clocks; "" says
// that it is valid. The text goes on from "the certificate".
func Validity(notBefore, notAfter, now time.Time) string {
	if now.Before(notBefore) || now.After(notAfter) {
		return validity(notBefore, notAfter, now)
	}
	return ""
}

func validity(notBefore, notAfter, now time.Time) string {
	if now.Before(notBefore) {
		by := roughly(notBefore.Sub(now))
		return fmt.Sprintf("is not valid yet: it is valid from %s on and this machine's clock says %s; this clock and that of the authority differ by at least %s, set both (NTP)",
			inUTC(notBefore), inUTC(now), by)
	}
	by := roughly(now.Sub(notAfter))
	return fmt.Sprintf("has expired: it was valid until %s and this machine's clock says %s; if it was renewed in time or should be valid still, the clocks differ by at least %s, else renew it",
		inUTC(notAfter), inUTC(now), by)
}

// inUTC renders a time for people on several machines.
func inUTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// roughly renders how long something is in two units.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Minute:
		return d.Truncate(time.Second).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
