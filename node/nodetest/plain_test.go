package nodetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// history runs a swarm through a test in virtual time. The swarm checks itself at the end.
func history(t *testing.T, cfg nodetest.Config, fn func(t *testing.T, s *nodetest.Swarm)) {
	t.Helper()
	start := time.Now()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		virtual := time.Now()
		fn(t, nodetest.New(t, cfg))
		t.Logf("%s virtual", time.Since(virtual).Round(time.Millisecond))
	})
	t.Logf("%s real", time.Since(start).Round(time.Millisecond))
}

// finals waits until all programs have ended well with this final model; its first element is compared.
func finals(t *testing.T, s *nodetest.Swarm, want float32, names ...string) {
	t.Helper()
	s.Wait(names...)
	for _, name := range names {
		r := s.Run(name)
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := r.Final(); got != want {
			t.Errorf("%s: final model is %v, want %v", name, got, want)
		}
	}
}

var three = []string{"sl-0", "sl-1", "sl-2"}

// The default programs of three SLs: the mean of 30, 60, 90, and in each of five steps that of 3, 6, 9; the first merge,
// five steps and the final round.
const (
	threeFinal  = 90
	threeRounds = 7
)

func plain(t *testing.T, s *nodetest.Swarm) {
	t.Helper()
	finals(t, s, threeFinal, three...)
	if got := len(s.Log.Settled()); got != threeRounds {
		t.Errorf("%d rounds, want %d", got, threeRounds)
	}
}

func TestPlainRun(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3, Elements: 250_000}, plain)
}

func TestOneAndOne(t *testing.T) {
	history(t, nodetest.Config{SNs: 1, SLs: 1}, func(t *testing.T, s *nodetest.Swarm) {
		finals(t, s, 30+5*3, "sl-0")
	})
}

func TestWeights(t *testing.T) {
	cfg := nodetest.Config{SNs: 1, SLs: 2, Program: func(i int, p *nodetest.Program) { p.Weight = 1 + 2*i }}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		finals(t, s, (30+3*60)/4.0+5*(3+3*6)/4.0, "sl-0", "sl-1")
	})
}

func TestCheckinModes(t *testing.T) {
	// sl-0 ends after two steps and adds 6 before it closes, sl-1 after four. After the first merge (45) and two steps
	// (49.5, 54) sl-0 is closed.
	for mode, want := range map[string]float32{
		"snapshot": 61.5, // sl-0 stays at 54+6: (60+60)/2, (60+66)/2, and the final round of 60 and 63
		"active":   60,   // sl-0 gives the last merge: (54+60)/2, (57+63)/2, and the final round of 60 and 60
		"once":     61.5, // as snapshot: sl-1 alone would be the model
		"inactive": 66,   // sl-0 gives nothing: 60, 66, and there is nothing to merge in the final round
	} {
		t.Run(mode, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 1, SLs: 2, Program: func(i int, p *nodetest.Program) {
				p.Mode, p.Steps = mode, 2+2*i
				if i == 0 {
					p.Last = 6
				}
			}}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) { finals(t, s, want, "sl-0", "sl-1") })
		})
	}
}
