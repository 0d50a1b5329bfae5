package merge

// Mergers returns who merges each participant's shard, if k are to: the participant itself, then, in plan order and from it on
// in a circle, those that own something too and whose unit differs from those taken already. There are fewer where there are not so
// many units, and the owner is alone where k is 1 or less. The entry of a participant that owns nothing is nil.
//
// All others but the owner merge it as witnesses. A unit is what parties are told apart by, so no party is its own witness.
func Mergers(units []string, owns []bool, k int) [][]int {
	mergers := make([][]int, len(units))
	for owner := range units {
		if !owns[owner] {
			continue
		}
		taken := map[string]bool{units[owner]: true}
		mergers[owner] = []int{owner}
		for step := 1; step < len(units) && len(taken) < k; step++ {
			i := (owner + step) % len(units)
			if owns[i] && !taken[units[i]] {
				taken[units[i]] = true
				mergers[owner] = append(mergers[owner], i)
			}
		}
	}
	return mergers
}
