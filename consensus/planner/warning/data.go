package warning

import (
	"fmt"

	"github.com/swarmd/swarmd/consensus/state"
)

// maxWeight is a peer's largest nodeWeightage.
const maxWeight = 100

// unequalData finds peers whose data differ by more than half in size while all weigh the same: federated averaging (McMahan et al. 2017)
// weighs each by the number of its samples.
func unequalData(f Facts) []Warning {
	var least, most *trained
	weights := map[uint32]bool{}
	for _, t := range f.sessions() {
		weights[t.Weight] = true
		if t.DataSamples == 0 {
			continue
		}
		if least == nil || t.DataSamples < least.DataSamples {
			least = &t
		}
		if most == nil || t.DataSamples > most.DataSamples {
			most = &t
		}
	}
	if t := f.Contract.Terms; t != nil && t.Weights == state.WeightsSamples || len(weights) != 1 || least == nil || least.DataSamples > most.DataSamples/2 {
		return nil
	}
	share := max(1, uint64(maxWeight*float64(least.DataSamples)/float64(most.DataSamples)+0.5)) // counts are whatever a node says
	return []Warning{{Reason: UnequalData, Advice: true, Text: fmt.Sprintf(
		"%s trains on %d samples and %s on %d, but all peers weigh the same: give nodeWeightage=\"samples\" at all peers, or nodeWeightage=%d and nodeWeightage=%d, which are in proportion to their samples",
		most.Node, most.DataSamples, least.Node, least.DataSamples, maxWeight, share)}}
}
