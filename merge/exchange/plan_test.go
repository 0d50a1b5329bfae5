package exchange_test

import (
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// TestPlanDigests holds that what plans of one run for each participant are signed as never changes, since ledgers are full of
// it, and that whatever else a plan says changes it.
func TestPlanDigests(t *testing.T) {
	plan := func(change func(p *exchange.Planned)) string {
		p := exchange.Planned{
			Contract: "study", Run: 1, Round: 2, Method: "mean", Layout: merge.Sum([]byte("layout")),
			Participants: []exchange.Participant{
				{Node: "a", Session: "s", Weight: 3, Shard: merge.Shard{Leaves: 5}, Factor: 0.5},
				{Node: "b", Session: "t", Shard: merge.Shard{First: 5}},
			},
		}
		change(&p)
		return p.Digest().String()
	}
	const old = "62cf72301fe542066adde051363203113fdf50d7a78fec45ba687175093b7f66"
	if got := plan(func(*exchange.Planned) {}); got != old {
		t.Errorf("digest %s, want %s", got, old)
	}
	seen := map[string]string{old: "nothing"}
	for name, change := range map[string]func(p *exchange.Planned){
		"epoch":   func(p *exchange.Planned) { p.Epoch = 1 },
		"epoch 2": func(p *exchange.Planned) { p.Epoch = 2 },
		"more":    func(p *exchange.Planned) { p.Participants[0].More = []merge.Shard{{First: 6, Leaves: 1}} },
		"another": func(p *exchange.Planned) { p.Participants[1].More = []merge.Shard{{First: 6, Leaves: 1}} },
		"longer":  func(p *exchange.Planned) { p.Participants[0].More = []merge.Shard{{First: 6, Leaves: 2}} },
		"two": func(p *exchange.Planned) {
			p.Participants[0].More = []merge.Shard{{First: 6, Leaves: 1}, {First: 8, Leaves: 1}}
		},
		"run":       func(p *exchange.Planned) { p.Run++ },
		"contract":  func(p *exchange.Planned) { p.Contract = "other" },
		"witnesses": func(p *exchange.Planned) { p.Witnesses = 2 },
		"three":     func(p *exchange.Planned) { p.Witnesses = 3 },
		"unit":      func(p *exchange.Planned) { p.Witnesses, p.Participants[0].Unit = 2, "u" },
		"its unit":  func(p *exchange.Planned) { p.Witnesses, p.Participants[1].Unit = 2, "u" },
	} {
		d := plan(change)
		if as := seen[d]; as != "" {
			t.Errorf("%s gives the digest of %s", name, as)
		}
		seen[d] = name
	}
}
