package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestCompare: an SN that shows another contract than most is left, and one that fewer contradict is not.
func TestCompare(t *testing.T) {
	other := shows{view: view(1, 9, 0, 5)}
	same, dead := shows{view: view(1, 1, 0, 5)}, shows{view: view(1, 1, 0, 5), stop: time.Nanosecond}
	for name, c := range map[string]struct {
		sns  map[string]shows
		tie  bool
		left bool
	}{
		"all agree":           {map[string]shows{"b:1": same, "c:1": same}, true, false},
		"one liar of three":   {map[string]shows{"b:1": same, "c:1": other}, true, false},
		"two against one":     {map[string]shows{"b:1": other, "c:1": other}, false, true},
		"one against one":     {map[string]shows{"b:1": other, "c:1": dead}, false, false},
		"a tie may be enough": {map[string]shows{"b:1": other, "c:1": dead}, true, true},
		"nobody answers":      {map[string]shows{"b:1": dead, "c:1": dead}, true, false},
		"two liars of five":   {map[string]shows{"b:1": same, "c:1": other, "d:1": other, "e:1": same}, true, false},
		"three of five":       {map[string]shows{"b:1": same, "c:1": other, "d:1": other, "e:1": other}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				order := []string{"a:1"}
				for sn := range c.sns {
					order = append(order, sn)
				}
				cl := showing(t, c.sns, order...)
				time.Sleep(time.Second)
				left := cl.Compare(t.Context(), "c", func(v *swarmv1.ContractView) bool { return v.GetCommitted().GetRound() == 1 }, c.tie)
				if want := map[bool]string{true: "a:1"}[c.left]; left != want {
					t.Errorf("left %q, want %q", left, want)
				}
				if now := cl.SNs()[0]; c.left && c.sns[now].view.GetCommitted().GetRound() != 9 || !c.left && now != "a:1" {
					t.Errorf("is at %s", now)
				}
			})
		})
	}
}
