package merge

// Mergers returns the mergers of each participant's shard: the participant itself, then its witnesses, k in all. Witnesses are
// the next participants in plan order, from the participant on in a circle, that own something and whose unit no other merger of
// the shard has. There are fewer than k where there are fewer units, and no witness where k is 1 or less. The entry of a
// participant that owns nothing is nil.
//
// A unit identifies a party, so no party witnesses its own shard.
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
