package warning

import (
	"fmt"

	"github.com/swarmd/swarmd/consensus/state"
)

// minPeers finds that a round needs more peers than nodes were told to expect, so that none will ever be merged.
func minPeers(f Facts) []Warning {
	var need, expected uint32
	for _, s := range f.Contract.Sessions {
		if s.Run != f.Contract.Run || s.State == state.SessionEnded {
			continue
		}
		if need == 0 || s.Terms.MinPeers < need {
			need = s.Terms.MinPeers
		}
		expected = max(expected, s.ExpectedPeers)
	}
	if t := f.Contract.Terms; t != nil {
		need = t.MinPeers
	}
	if expected == 0 || need <= expected || f.Contract.Over {
		return nil
	}
	return []Warning{{Reason: MinPeers, Text: fmt.Sprintf(
		"minPeers is %d, but %s expected: no round can be merged; give a smaller minPeers in the program, or start more peers", need, peers(expected))}}
}

func peers(n uint32) string {
	if n == 1 {
		return "only 1 peer is"
	}
	return fmt.Sprintf("only %d peers are", n)
}
