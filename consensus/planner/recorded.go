package planner

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// recorded returns which models the ledger says were committed in a run, by round; a model that training went back to stands
// under both of its rounds. Read is [Config.Ledger].
func recorded(read func(offset uint64) ([]byte, error), contract string, run uint64) (map[uint64]Held, error) {
	found := map[uint64]Held{}
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
					found[r.Round] = Held{Round: r.Round, Digest: r.Model, StateDigest: r.State}
				}
			case ledger.AdoptedRound:
				if p := r.Proof; p.Contract == contract && p.Run == run {
					for _, round := range []uint64{p.Round, r.Round} {
						found[round] = Held{Round: round, Digest: p.Model, StateDigest: p.State}
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
func (l *Planner) prove(known *contract, c *state.Contract) map[uint64]Held {
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
func (f *facts) contradicts(h Held) bool {
	if r, ok := f.in.Recorded[h.Round]; ok {
		return r != h
	}
	for round := range f.in.Recorded {
		if round < h.Round {
			return true
		}
	}
	return slices.ContainsFunc(f.in.Recent, func(r state.CommittedRound) bool {
		return r.Round == h.Round && (r.Digest != h.Digest || r.StateDigest != h.StateDigest)
	})
}
