package nodetest

import (
	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
)

// Backup is what the stores of all SNs held at one time.
type Backup struct{ logs map[string]*raft.InmemStore }

// Backup copies the stores of the SNs while they run.
func (s *Swarm) Backup() Backup {
	s.t.Helper()
	b := Backup{map[string]*raft.InmemStore{}}
	for _, n := range s.order {
		b.logs[n.id.name] = s.copied(n.log)
	}
	return b
}

// Restore puts a backup in the place of what the SNs have, and starts them with it. Nobody sees anything of what was committed since but
// the SLs.
func (s *Swarm) Restore(b Backup) {
	s.t.Helper()
	s.gone = append(s.gone, s.agreed().rounds...)
	var names []string
	for _, n := range s.order {
		names = append(names, n.id.name)
	}
	s.Crash(names...)
	for _, n := range s.order {
		n.tasks.Wait()
		n.log = s.copied(b.logs[n.id.name])
		n.stores = consensus.Stores{Log: n.log, Stable: n.log, Snapshots: raft.NewInmemSnapshotStore()}
	}
	for _, name := range names {
		s.Restart(name)
	}
}

// copied returns a store with the same log, term and vote.
func (s *Swarm) copied(from *raft.InmemStore) *raft.InmemStore {
	s.t.Helper()
	to := raft.NewInmemStore()
	// Term and vote first: a backup that is older in its log than in these is no danger, the other way round would be.
	for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
		if v, err := from.GetUint64([]byte(key)); err == nil {
			s.must(to.SetUint64([]byte(key), v))
		}
	}
	if v, err := from.Get([]byte("LastVoteCand")); err == nil {
		s.must(to.Set([]byte("LastVoteCand"), v))
	}
	first, err := from.FirstIndex()
	s.must(err)
	last, err := from.LastIndex()
	s.must(err)
	for i := first; i <= last && i > 0; i++ {
		var entry raft.Log
		s.must(from.GetLog(i, &entry))
		s.must(to.StoreLog(&entry))
	}
	return to
}

// Before returns the rounds of logs that were replaced by older ones.
func (s *Swarm) Before() []Round { return s.gone }
