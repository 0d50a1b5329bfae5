package nodetest

import (
	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
)

// Backup is what the stores of all SNs held at one time.
type Backup struct{ logs map[string]*raft.InmemStore }

// Backup copies the stores of the SNs while they run.
func (ns *SNs) Backup() Backup {
	ns.swarm.t.Helper()
	b := Backup{map[string]*raft.InmemStore{}}
	for _, n := range ns.all {
		b.logs[n.id.name] = ns.copied(n.log)
	}
	return b
}

// Restore puts a backup in the place of what the SNs have, and starts them with it. Nobody sees anything of what was committed since but
// the SLs.
func (ns *SNs) Restore(b Backup) {
	ns.swarm.t.Helper()
	ns.swarm.Log.gone = append(ns.swarm.Log.gone, ns.swarm.Log.agreed().rounds...)
	var names []string
	for _, n := range ns.all {
		names = append(names, n.id.name)
	}
	ns.swarm.Crash(names...)
	for _, n := range ns.all {
		n.tasks.Wait()
		n.log = ns.copied(b.logs[n.id.name])
		n.stores = consensus.Stores{Log: n.log, Stable: n.log, Snapshots: raft.NewInmemSnapshotStore()}
	}
	for _, name := range names {
		ns.swarm.Restart(name)
	}
}

// copied returns a store with the same log, term and vote.
func (ns *SNs) copied(from *raft.InmemStore) *raft.InmemStore {
	ns.swarm.t.Helper()
	to := raft.NewInmemStore()
	// Term and vote first: a backup that is older in its log than in these is no danger, the other way round would be.
	for _, key := range []string{"CurrentTerm", "LastVoteTerm"} {
		if v, err := from.GetUint64([]byte(key)); err == nil {
			ns.swarm.must(to.SetUint64([]byte(key), v))
		}
	}
	if v, err := from.Get([]byte("LastVoteCand")); err == nil {
		ns.swarm.must(to.Set([]byte("LastVoteCand"), v))
	}
	first, err := from.FirstIndex()
	ns.swarm.must(err)
	last, err := from.LastIndex()
	ns.swarm.must(err)
	for i := first; i <= last && i > 0; i++ {
		var entry raft.Log
		ns.swarm.must(from.GetLog(i, &entry))
		ns.swarm.must(to.StoreLog(&entry))
	}
	return to
}

// Before returns the rounds of logs that were replaced by older ones.
func (l *Log) Before() []Round { return l.gone }
