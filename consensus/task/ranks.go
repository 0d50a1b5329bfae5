package task

// FirstRank is the rank of the first member of an assignment: an SL that a job is beside has rank 0.
func FirstRank(j JobTerms) int {
	if j.Beside != "" {
		return 1
	}
	return 0
}

// RanksBeside are how many ranks the programs of SLs have that run rank 0 themselves, with that one, by the SL's name: while the job with the others runs.
func RanksBeside(b *Board) map[string]uint32 {
	all := map[string]uint32{}
	for _, id := range b.LiveIDs() {
		a := b.Assignments[id]
		if a.Beside == "" || a.Phase != Running {
			continue
		}
		ranks := uint32(1)
		for _, g := range a.Groups {
			ranks += g.Peers
		}
		all[a.Beside] = ranks
	}
	return all
}
