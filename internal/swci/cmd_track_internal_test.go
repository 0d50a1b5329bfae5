package swci

import "testing"

// TestTrackedRoundsInWords: what is lacking is said wherever it is.
func TestTrackedRoundsInWords(t *testing.T) {
	for want, r := range map[string]trackedRounds{
		"no round is settled yet": {},
		"wrote 1 round, up to round 3; left out, as the swarm's history lacks them: 2 rounds":   {Written: 1, Last: 3, LeftOut: 2},
		"wrote 0 rounds, up to round 0; left out, as the swarm's history lacks them: 50 rounds": {LeftOut: 50},
		"wrote 0 rounds, up to round 7": {Last: 7},
	} {
		if got := r.line(); got != want {
			t.Errorf("%+v is %q, want %q", r, got, want)
		}
	}
}
