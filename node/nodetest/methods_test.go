package nodetest_test

import (
	"testing"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestMethods has every kind of method train a swarm to its end, with weights that differ: the checks at the end hold every
// round's digest to a merge in one place, with the base and the optimiser's state that belong to it. One peer crashes and
// comes back, so that model and state are fetched too.
func TestMethods(t *testing.T) {
	for _, method := range []string{
		"coordmedian", "trimmedmean(share=0.2)", "geomedian", "krum(f=1)", "multikrum", "normclip", "FedAvgM", "fedadam(lr=0.1)", "fedyogi", "diloco",
		"mean(wire=bfloat16)", "normclip(wire=bfloat16)", "fedadam(lr=0.1,wire=float16)",
	} {
		t.Run(method, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 1, SLs: 6, MinPeers: 5, Steps: 4, Elements: 66_000, Program: func(i int, p *nodetest.Program) {
				p.Method, p.Weight = method, 10+i
			}}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				s.Until("two rounds", func() bool { return s.Round() >= 2 })
				s.Crash("sl-5")
				s.Until("a round without it", func() bool { return s.Round() >= 3 })
				s.Restart("sl-5")
				agree(t, s, "sl-0", "sl-1", "sl-2", "sl-3", "sl-4", "sl-5")
			})
		})
	}
}
