package audit

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// After judges a whole ledger and returns how a single record that follows it is judged: by a copy of the auditor each time, so that
// keys and certificates are made and checked once.
func After(raw []byte, o Options) func(kind string, body []byte) *Report {
	a := newAuditor(o)
	for line := range bytes.Lines(raw) {
		a.seq++
		if !a.take(line) {
			return nil
		}
	}
	return func(kind string, body []byte) *Report {
		c := a.clone()
		line, err := json.Marshal(ledger.Record{V: ledger.Version, Seq: c.past.head.Length + 1, Prev: c.past.head.Hash, Kind: kind, AtMS: c.atMS + 1, Body: body})
		if err != nil {
			return nil // no record can hold that
		}
		c.seq++
		c.take(append(line, '\n'))
		return c.finish()
	}
}

func (a *auditor) clone() *auditor {
	c := newAuditor(a.opts)
	report := *a.report
	*c.findings = *a.findings
	c.report = &report
	c.past.head, c.past.hashes, c.past.witnessed = a.past.head, a.past.hashes, a.past.witnessed
	c.authorities.bundles = x509bundle.NewSet(a.authorities.bundles.Bundles()...)
	c.members.nodes, c.members.banned, c.members.admitted = maps.Clone(a.members.nodes), maps.Clone(a.members.banned), a.members.admitted
	c.members.orders.nonces, c.members.orders.first = maps.Clone(a.members.orders.nonces), a.members.orders.first
	c.recovered = a.recovered
	c.contracts.order, c.contracts.floors = a.contracts.order, slices.Clone(a.contracts.floors)
	for name, x := range a.contracts.courses {
		shown := *x.shown
		shown.Runs = nil
		for _, r := range x.shown.Runs {
			run := *r
			run.models = maps.Clone(r.models)
			shown.Runs = append(shown.Runs, &run)
		}
		c.contracts.courses[name] = &course{
			shown: &shown, models: maps.Clone(x.models), shares: maps.Clone(x.shares), runShares: maps.Clone(x.runShares), records: x.records, floor: x.floor,
		}
	}
	return c
}
