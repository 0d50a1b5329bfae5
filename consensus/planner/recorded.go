package planner

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// recorded returns which models the ledger says were committed in a run, by round; a model that training went back to stands
// under both of its rounds. Read is [Config.Ledger].
func recorded(read func(offset uint64) ([]byte, error), contract string, run uint64) (map[uint64]round.Model, error) {
	found := map[uint64]round.Model{}
	for offset := uint64(0); ; {
		data, err := read(offset)
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			return found, nil
		}
		for len(data) > 0 {
			line, rest, ok := ledger.CutLine(data)
			if !ok {
				return nil, fmt.Errorf("ledger at byte %d: %w", offset, ledger.ErrMalformed)
			}
			_, body, err := ledger.Parse(line)
			if err != nil {
				return nil, fmt.Errorf("ledger at byte %d: %w", offset, err)
			}
			switch r := body.(type) {
			case ledger.Round:
				if r.Contract == contract && r.Run == run {
					found[r.Round] = round.Model{Round: r.Round, Digest: r.Model, State: r.State}
				}
			case ledger.AdoptedRound:
				if p := r.Proof; p.Contract == contract && p.Run == run {
					for _, n := range []uint64{p.Round, r.Round} {
						found[n] = round.Model{Round: n, Digest: p.Model, State: p.State}
					}
				}
			case ledger.LostModel:
				if old, ok := found[r.Resumed]; ok && r.Contract == contract && r.Run == run {
					old.Round = r.Round + 1
					found[old.Round] = old
				}
			}
			offset += uint64(len(line))
			data = rest
		}
	}
}

// prove reads what the ledger says of a contract, once for each model that may be lost; nil if it can't be read here.
func (l *Planner) prove(known *contract, c *state.Contract) map[uint64]round.Model {
	if l.cfg.Ledger == nil {
		return nil
	}
	if known.recorded == nil || known.recordedAt != c.Round() || known.recordedRun != c.Run {
		of, err := recorded(l.cfg.Ledger, c.Name, c.Run)
		if err != nil {
			l.log.Debug("models that are held are not looked up in the ledger", "contract", c.Name, "error", err)
			return nil
		}
		known.recorded, known.recordedAt, known.recordedRun = of, c.Round(), c.Run
	}
	return known.recorded
}

// contradicts reports whether another model was committed in that round, or none, as far as this leader has seen it itself or has it
// in its ledger. A ledger may have begun after the first rounds; of what is older it knows nothing.
func (f *facts) contradicts(m round.Model) bool {
	if r, ok := f.in.Recorded[m.Round]; ok {
		return r != m
	}
	for n := range f.in.Recorded {
		if n < m.Round {
			return true
		}
	}
	return slices.ContainsFunc(f.in.Recent, func(r state.CommittedRound) bool {
		return r.Round == m.Round && (r.Digest != m.Digest || r.StateDigest != m.State)
	})
}
