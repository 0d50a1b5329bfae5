package audit_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestRunsOfDeletedContracts: a contract that is made begins behind a run that had been deleted since its name was free, whenever that
// was; no name has a run twice.
func TestRunsOfDeletedContracts(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	gone := func(name string, run uint64) ledger.Body {
		return ledger.Deleted{Contract: name, Run: run, Expired: true}
	}
	rules := func(name string, run uint64) func(b *builder) ledger.Body {
		return func(b *builder) ledger.Body {
			return ledger.Rules{Contract: name, Run: run, Order: op.asks(b, &swarmv1.CreateContractRequest{Contract: name, Rules: &swarmv1.Rules{Export: true}})}
		}
	}
	for name, tt := range map[string]struct {
		late bool
		add  func(b *builder)
		run  uint64
		want string
	}{
		"before any":                   {false, func(*builder) {}, 1, ""},
		"before any, a higher one":     {false, func(*builder) {}, 2, "contract study is in run 1, not 2"},
		"behind another":               {false, func(b *builder) { b.add(gone("other", 1)) }, 2, ""},
		"made before the other went":   {false, func(b *builder) { b.add(gone("other", 1)) }, 1, ""},
		"between two":                  {false, func(b *builder) { b.add(gone("other", 1)); b.add(gone("other", 2)) }, 2, ""},
		"behind none":                  {false, func(b *builder) { b.add(gone("other", 1)) }, 3, "contract study is in run 2, not 3"},
		"its own again":                {false, func(b *builder) { b.add(gone(study, 1)) }, 1, "contract study is in run 2, not 1"},
		"behind its own":               {false, func(b *builder) { b.add(gone(study, 1)) }, 2, ""},
		"an older one of another's":    {false, func(b *builder) { b.add(gone("other", 1)); b.add(gone(study, 2)) }, 2, "contract study is in run 3, not 2"},
		"one that went by itself":      {false, func(b *builder) { b.add(rules(study, 1)(b)); b.add(op.deletes(b, 1)); b.add(gone(study, 2)) }, 3, ""},
		"a late ledger":                {true, func(*builder) {}, 7, ""},
		"a late ledger, its own again": {true, func(b *builder) { b.add(gone(study, 7)) }, 7, "contract study is in run 8, not 7"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &builder{t: t}
			b.add(ledger.Swarm{SwarmID: swarmID, Late: tt.late})
			b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
			tt.add(b)
			b.add(rules(study, tt.run)(b))
			r := verify(t, b.bytes, optionsOf(ca))
			switch {
			case tt.want == "" && !r.Good():
				t.Errorf("%v", r.Problems)
			case tt.want != "" && (r.Good() || !strings.Contains(r.Problems[0].Error(), tt.want)):
				t.Errorf("%v, want %q", r.Problems, tt.want)
			}
		})
	}
}
