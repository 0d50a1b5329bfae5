package nodetest_test

import (
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/node/nodetest"
)

func TestPlainRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.New(t, nodetest.Config{SNs: 3, SLs: 3})
		s.Wait()
		for _, name := range []string{"sl-0", "sl-1", "sl-2"} {
			// The mean of 30, 60, 90, and in each of five steps that of 3, 6, 9.
			if got, err := s.Run(name).Final(), s.Run(name).Err(); err != nil || got != 60+5*6 {
				t.Errorf("%s: final model is %v, %v; want 90", name, got, err)
			}
		}
		if got := len(s.Log()); got != 7 { // the first merge, five steps, the final round
			t.Errorf("%d rounds, want 7", got)
		}
	})
}
