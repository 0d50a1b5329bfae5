package nodetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// settleTime is how long a healed swarm may take to agree.
const settleTime = 2 * time.Minute

// close stops everything and, unless the test has failed already, checks the swarm first.
func (s *Swarm) close() {
	if !s.t.Failed() {
		s.End()
	}
	for _, n := range s.SLs.all {
		n.end()
		n.contained().kill()
	}
	for _, n := range s.SLs.all {
		n.tasks.Wait()
	}
	for _, n := range s.SNs.all {
		n.end(true)
	}
	for _, n := range s.SNs.all {
		if n.tasks != nil {
			n.tasks.Wait()
		}
	}
	for _, c := range s.clients {
		_ = c.Close() // idle connections; never fails
	}
	s.Network.snap(errLeft, func(*stream) bool { return true })
	s.Network.serving.Wait()
}

// End checks what must hold at the end of every history: all running SNs have the same log, the same state bytes, and no
// broken invariant; every round was committed once, with the model that its participants' weights make, trained
// from the round before; every model that
// a program was given was committed, and every Sync that was acknowledged as taken stands in that round; the programs
// that came to the end of a run hold the same final model; no leaf of what one Sync handed in went to more than two owners,
// with their witnesses. Faults that still last are mended first. A test may call it
// earlier; at the test's end it is called in any case.
func (s *Swarm) End() {
	s.t.Helper()
	if s.ended {
		return
	}
	s.ended = true
	s.mend()
	s.farewell()
	h := s.Log.agreed()
	s.Log.checkRounds(h)
	s.Log.checkPrograms(h)
	mergers := 1
	if c := h.end.Contracts[Contract]; c != nil && c.Rules != nil {
		mergers = max(mergers, int(c.Rules.Witnesses))
	}
	if _, owners := s.Traffic.Seen(""); owners > 2*mergers {
		s.t.Errorf("a leaf of one contribution went to %d nodes, at most %d may get it", owners, 2*mergers)
	}
}

// mend ends all faults but crashes.
func (s *Swarm) mend() {
	for name := range s.ids {
		s.Network.Join(name)
		s.Network.Continue(name)
		s.Network.Renew(name)
	}
}

// farewell waits until nodes whose program has ended have told the contract and left.
func (s *Swarm) farewell() {
	training := false
	left := func(n *sl) bool {
		r := n.last()
		if r == nil || !n.up() {
			return true
		}
		select {
		case <-r.Done():
			return false
		default:
			training = true // the others stay for it
			return true
		}
	}
	for end := time.Now().Add(settleTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(s.SLs.all, func(n *sl) bool { return !left(n) }) {
			return
		}
	}
	if training {
		return
	}
	s.t.Errorf("a node does not leave after its program has ended\n%s", s.Describe())
}

// Log is what the logs of the SNs say, and whether that and what programs were told can be true.
type Log struct {
	swarm *Swarm
	gone  []Round // committed in logs that were replaced by older ones since
}

// Settled returns the committed rounds of all contracts, as the SNs agree on them once they have settled.
func (l *Log) Settled() []Round {
	l.swarm.t.Helper()
	return l.agreed().rounds
}

// agreed waits until the running SNs are at the same index and returns what all their logs say.
func (l *Log) agreed() history {
	l.swarm.t.Helper()
	var live []*sn
	for _, n := range l.swarm.SNs.all {
		if n.up() {
			live = append(live, n)
		}
	}
	if len(live) == 0 {
		l.swarm.t.Error("no SN is left to check")
		return history{end: state.New()}
	}
	var index uint64
	views := make([]*state.State, len(live))
	at := func() bool {
		return !slices.ContainsFunc(live, func(n *sn) bool { return n.group.Index() != index })
	}
	same := func() bool { // all before and after the look: they go on meanwhile
		index = live[0].group.Index()
		before := at()
		for i, n := range live {
			views[i] = n.group.View()
		}
		return before && at()
	}
	for end := time.Now().Add(settleTime); !same() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	var all []history
	for i, n := range live {
		view := views[i]
		h, err := replay(n.log, index)
		if err != nil {
			l.swarm.t.Errorf("replay %s: %v", n.id.name, err)
		}
		if err := state.Check(view); err != nil {
			l.swarm.t.Errorf("state of %s: %v", n.id.name, err)
		}
		if got, want := encoded(view), encoded(h.end); !bytes.Equal(got, want) {
			l.swarm.t.Errorf("state of %s is not what its log says:\n got %s\nwant %s", n.id.name, got, want)
		}
		all = append(all, h)
	}
	for i, h := range all[1:] {
		if !slices.EqualFunc(h.entries, all[0].entries, bytes.Equal) {
			l.swarm.t.Errorf("logs of %s (%d commands) and %s (%d commands) differ", live[0].id.name, len(all[0].entries), live[i+1].id.name, len(h.entries))
		}
	}
	return all[0]
}

func encoded(v *state.State) []byte {
	b, err := state.EncodeSnapshot(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// checkRounds holds that every round follows the one before and is the mean of what its participants offered.
func (l *Log) checkRounds(h history) {
	l.swarm.t.Helper()
	type key struct {
		contract string
		run      uint64
	}
	last := map[key]Round{}
	models, states := map[string][]byte{}, map[string][]byte{} // by the model's digest
	for _, r := range append(slices.Clip(l.gone), h.rounds...) {
		k := key{r.Contract, r.Run}
		if known := models[r.Digest]; known != nil && r.Round <= last[k].Round {
			if r.Adopted == nil {
				continue // it was in the log of before too
			}
			l.swarm.t.Errorf("contract %s, run %d: round %d is adopted after round %d", r.Contract, r.Run, r.Round, last[k].Round)
		}
		if r.Round != last[k].Round+1 && (r.Adopted == nil || r.Attempt != 0 || r.Round <= last[k].Round) {
			l.swarm.t.Errorf("contract %s, run %d: round %d follows round %d", r.Contract, r.Run, r.Round, last[k].Round)
		}
		if r.Attempt == 0 { // a step back: nobody merged anything
			if _, known := models[r.Digest]; !known && (r.Adopted != nil || r.Lost.ResumedRound > 0) {
				l.swarm.t.Errorf("round %d of %s, run %d: goes back to a model that was never committed", r.Round, r.Contract, r.Run)
			}
			last[k] = r
			continue
		}
		before := last[k].Digest
		model, newState, err := l.expected(r, models[before], states[before])
		if err != nil {
			l.swarm.t.Errorf("round %d of %s, run %d: %v", r.Round, r.Contract, r.Run, err)
		}
		models[r.Digest], states[r.Digest], last[k] = model, newState, r
	}
}

// expected merges what the participants of a round offered around the last model, with its optimiser's state, and compares
// the digest with the committed one.
func (l *Log) expected(r Round, base, optimiser []byte) (model, newState []byte, err error) {
	var weights []uint32
	var sources [][]byte
	var layout *merge.Layout
	method := "mean"
	for i, p := range r.Participants {
		run := l.swarm.SLs.runOf(p.Session)
		if run == nil {
			return nil, nil, fmt.Errorf("nobody has session %s", p.Session)
		}
		if layout, err = run.Program.layout(); err != nil {
			return nil, nil, err
		}
		if p.Weight == 0 {
			continue
		}
		if run.Program.Method != "" {
			method = run.Program.Method
		}
		source := run.offer(p.Seq)
		back := r.Adopted != nil && run.base(p.Seq) == r.Adopted.Proven || r.Lost != nil && (run.base(p.Seq) == r.Lost.ResumedRound || r.Lost.ResumedRound == 0)
		if r.Sessions[i].State == state.SessionOpen && run.base(p.Seq) != r.Round-1 && !back {
			return nil, nil, fmt.Errorf("sync %d of %s was trained from the model of round %d", p.Seq, p.Node, run.base(p.Seq))
		}
		if r.Sessions[i].State == state.SessionClosed {
			source = run.offer(0)
			if r.Sessions[i].CheckinMode == state.CheckinActive && r.Round > 1 {
				source = base
			}
		}
		if source == nil {
			return nil, nil, fmt.Errorf("%s has no weights of sync %d", p.Node, p.Seq)
		}
		weights, sources = append(weights, p.Weight), append(sources, source)
	}
	m, err := merge.ParseMethod(method)
	if err != nil {
		return nil, nil, err
	}
	model, newState, err = mergetest.Merge(m, layout, weights, sources, base, optimiser)
	if err != nil {
		return nil, nil, err
	}
	if got := digestOf(layout, model); got != r.Digest {
		return model, newState, fmt.Errorf("the "+method+" of the offered weights has digest %.12s, committed is %.12s", got, r.Digest)
	}
	return model, newState, nil
}

// offer returns the weights of a Sync, or those at the close for 0, or the last ones if the program has not got so far.
func (r *Run) offer(seq uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.offers {
		if o.seq == seq {
			return o.model
		}
	}
	if seq == 0 && len(r.offers) > 0 {
		return r.offers[len(r.offers)-1].model
	}
	return nil
}

// base returns the round whose model the weights of a Sync were trained from, 0 for none.
func (r *Run) base(seq uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.handed {
		if m.Seq > 0 && m.Seq+1 == seq { // 0 is the close
			return m.Round
		}
	}
	return 0
}

// runs returns all runs of all programs.
func (ls *SLs) runs() []*Run {
	var all []*Run
	for _, n := range ls.all {
		n.mu.Lock()
		all = append(all, n.runs...)
		n.mu.Unlock()
	}
	return all
}

func (ls *SLs) runOf(session string) *Run {
	for _, r := range ls.runs() {
		r.mu.Lock()
		mine := r.session == session
		r.mu.Unlock()
		if mine {
			return r
		}
	}
	return nil
}

// checkPrograms holds every model that a program was given against the log.
func (l *Log) checkPrograms(h history) {
	l.swarm.t.Helper()
	finals := map[string]string{} // contract and run to digest
	h.rounds = append(slices.Clip(l.gone), h.rounds...)
	for _, r := range l.swarm.SLs.runs() {
		r.mu.Lock()
		session, handed, ended, err := r.session, r.handed, r.ended, r.err
		r.mu.Unlock()
		before := uint64(0)
		for _, m := range handed {
			if m.Skipped {
				if m.Round != before || !h.skipped(r.Program.Contract, session, m.Seq) {
					l.swarm.t.Errorf("%s, sync %d: told that a round after %d was skipped, after round %d", r.Peer, m.Seq, m.Round, before)
				}
				continue
			}
			round := findRound(h, r.Program.Contract, m, session)
			switch {
			case round == nil:
				l.swarm.t.Errorf("%s was given round %d with digest %.12s, which was never committed", r.Peer, m.Round, m.Digest)
				continue
			case m.Seq > 0 && m.Round < before || m.Seq > 0 && m.Round == before && !m.Over:
				l.swarm.t.Errorf("%s was given round %d after round %d", r.Peer, m.Round, before)
			}
			before = m.Round
			took := slices.ContainsFunc(round.Participants, func(p state.Participant) bool { return p.Session == session && p.Seq == m.Seq })
			if m.Seq > 0 && m.Contributed != took {
				l.swarm.t.Errorf("%s, sync %d: told contributed %v, the log of round %d says %v", r.Peer, m.Seq, m.Contributed, m.Round, took)
			}
		}
		if !ended || err != nil {
			continue
		}
		if mine := h.session(r.Program.Contract, session); mine != nil && mine.EndReason != state.EndFinished && mine.EndReason != state.EndReset {
			l.swarm.t.Errorf("%s has the final model, its session stands as %s %q", r.Peer, mine.State, mine.EndReason)
		}
		last := handed[len(handed)-1]
		round := findRound(h, r.Program.Contract, last, session)
		if round == nil {
			continue
		}
		key := fmt.Sprintf("%s run %d", round.Contract, round.Run)
		if had, ok := finals[key]; ok && had != last.Digest {
			l.swarm.t.Errorf("%s: final models differ: %s has %.12s, another has %.12s", key, r.Peer, last.Digest, had)
		}
		finals[key] = last.Digest
	}
}

// session returns a session as it stands at the end; nil when it is forgotten or unknown.
func (h history) session(contract, id string) *state.Session {
	if c := h.end.Contracts[contract]; c != nil {
		return c.Sessions[id]
	}
	return nil
}

// skipped reports whether a Sync was to be answered without a model.
func (h history) skipped(contract, session string, seq uint64) bool {
	return slices.ContainsFunc(h.commands, func(c state.Command) bool {
		k, ok := c.(state.SkipRound)
		return ok && k.Contract == contract && k.Sessions[session] == seq
	})
}

// findRound finds a round that a session was given. Digests of two runs may be equal, so the run matters.
func findRound(h history, contract string, m Handed, session string) *Round {
	var found *Round
	for i, r := range h.rounds {
		if r.Contract == contract && r.Round == m.Round && r.Digest == m.Digest {
			found = &h.rounds[i]
			if slices.ContainsFunc(r.Participants, func(p state.Participant) bool { return p.Session == session }) {
				return found
			}
		}
	}
	return found
}

// Rounds returns the rounds of all contracts that the leader's log has committed by now.
func (l *Log) Rounds() []Round {
	l.swarm.t.Helper()
	n := l.swarm.sn(l.swarm.Leader())
	h, err := replay(n.log, n.group.Index())
	l.swarm.must(err)
	return h.rounds
}

// Deaths returns how often a node was declared dead.
func (l *Log) Deaths(name string) int {
	l.swarm.t.Helper()
	dead := 0
	for _, c := range l.agreed().commands {
		if live, ok := c.(state.SetLive); ok && live.Node == name && !live.Live {
			dead++
		}
	}
	return dead
}

// Fail fails the test from within a fault.
func (s *Swarm) Fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf(format, args...)
}
