package nodetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/node/nodetest"
)

// TestHonestMergersAgree: whatever the method is and though a peer dies in the middle of an exchange and others resume, nobody is
// ever said to have merged otherwise than the others.
func TestHonestMergersAgree(t *testing.T) {
	for _, method := range []string{"mean", "geomedian", "krum(f=1)", "normclip", "fedadam(lr=0.1)", "mean(wire=bfloat16)", "geomedian(wire=float16)"} {
		t.Run(method, func(t *testing.T) {
			all := []string{"sl-0", "sl-1", "sl-2", "sl-3", "sl-4", "sl-5"}
			cfg := nodetest.Config{SNs: 1, SLs: 6, MinPeers: 5, Steps: 5, Elements: 12_000, Late: all, Program: func(i int, p *nodetest.Program) {
				p.Method, p.Weight = method, 10+i
			}}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				if _, err := s.Operator().CreateContract(t.Context(), nodetest.Contract, &swarmv1.Rules{Witnesses: 3}); err != nil {
					t.Fatal(err)
				}
				for _, name := range all {
					s.Restart(name)
				}
				for a := range 6 {
					for b := range a {
						s.Network.Slow(fmt.Sprintf("sl-%d", a), fmt.Sprintf("sl-%d", b), 50*time.Millisecond)
					}
				}
				s.Until("an exchange of round 3", func() bool { return s.Planned(3) })
				time.Sleep(150 * time.Millisecond)
				s.Crash("sl-2")
				s.Until("a round without it", func() bool {
					if why := s.View(nodetest.Contract).PendingReason; strings.Contains(why, "otherwise") || strings.Contains(why, "do not agree") || strings.Contains(why, "signed") {
						t.Errorf("an attempt failed: %s", why)
					}
					return s.Round() >= 4
				})
				s.Restart("sl-2")
				agree(t, s, all...)
			})
		})
	}
}
