package audit

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Run is what the ledger says of one run of a contract.
type Run struct {
	Number          uint64
	Rounds          int    // that were committed
	LastRound       uint64 // its number may be higher: lost models take numbers
	FirstMS, LastMS int64  // times of the first and the last round, by the SNs that led
	Over            bool
	Participants    []*Share // by first appearance
	models          map[uint64]*Model
}

// Model is one committed model.
type Model struct {
	Record         uint64 // number of its record
	Round          uint64
	AtMS           int64
	Digest, Layout string // hex
	Method         string
	base           uint64 // the round whose model it goes on from; 0: none
	missing        uint64 // rounds between that and this one, of which the ledger has nothing
	parts          []part
}

type part struct {
	node    string
	weight  uint32
	program string
}

// History is how a model came to be.
type History struct {
	First, Last     uint64 // rounds
	FirstMS, LastMS int64
	Methods         []string // by first appearance
	Contributors    []*Share // with the shares of the weights of these rounds; by first appearance
	Missing         uint64   // rounds among them of which the ledger has nothing, as the SNs were restored from a backup
}

// RunOf returns a run of a contract, or nil.
func (r *Report) RunOf(contract string, run uint64) *Run {
	for _, c := range r.Contracts {
		for _, x := range c.Runs {
			if c.Name == contract && x.Number == run {
				return x
			}
		}
	}
	return nil
}

// Model returns the model of a round, or nil.
func (r *Run) Model(round uint64) *Model { return r.models[round] }

// With returns the models of a digest, by round.
func (r *Run) With(digest string) []*Model {
	var out []*Model
	for _, m := range r.models {
		if m.Digest == digest {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *Model) int {
		if a.Round < b.Round {
			return -1
		}
		return 1
	})
	return out
}

// History returns how the model of a round came to be: the rounds that it goes back to, without those whose models were lost.
func (r *Run) History(round uint64) History {
	var line []*Model
	for m := r.models[round]; m != nil && len(line) <= len(r.models); m = r.models[m.base] {
		line = append(line, m)
		if m.base >= m.Round {
			break
		}
	}
	slices.Reverse(line)
	h := History{}
	shares := map[string]*Share{}
	for _, m := range line {
		h.Missing += m.missing
		if len(m.parts) == 0 {
			continue // an older model under a new number
		}
		if h.First == 0 {
			h.First, h.FirstMS = m.Round, m.AtMS
		}
		h.Last, h.LastMS = m.Round, m.AtMS
		if !slices.Contains(h.Methods, m.Method) {
			h.Methods = append(h.Methods, m.Method)
		}
		for _, p := range m.parts {
			s := shares[p.node]
			if s == nil {
				s = &Share{Node: p.node}
				for _, known := range r.Participants {
					if known.Node == p.node {
						s.SPIFFEID, s.PeerID = known.SPIFFEID, known.PeerID
					}
				}
				shares[p.node] = s
				h.Contributors = append(h.Contributors, s)
			}
			s.Rounds++
			s.Weight += uint64(p.weight)
			s.ran(p.program)
		}
	}
	divide(h.Contributors)
	return h
}

// ran notes a program, once.
func (s *Share) ran(program string) {
	if program != "" && !slices.Contains(s.Programs, program) {
		s.Programs = append(s.Programs, program)
	}
}

// program notes which program a session is for. It tells of no use of the contract: a session that was opened and ended leaves nothing.
func (k *contracts) program(p ledger.Program) {
	c := k.course(p.Contract, p.Run)
	c.records--
	if p.Run != c.shown.Run {
		k.bad("run", "contract %s is in run %d, not %d", p.Contract, c.shown.Run, p.Run)
	}
	if known := k.members.nodes[p.Node]; known != nil && known.PeerID != p.PeerID {
		k.bad("peer_id", "node %s registered with node key %s, not %.80s", p.Node, known.PeerID, p.PeerID)
	}
	c.programs[p.Session] = p.Program
}

// divide works out the shares of weights.
func divide(shares []*Share) {
	var all uint64
	for _, s := range shares {
		all += s.Weight
	}
	for _, s := range shares {
		if all > 0 {
			s.Share = float64(s.Weight) / float64(all)
		}
	}
}

// run returns the run of a contract that is under way, begun if it is new.
func (c *course) run() *Run {
	if n := len(c.shown.Runs); n > 0 && c.shown.Runs[n-1].Number == c.shown.Run {
		return c.shown.Runs[n-1]
	}
	r := &Run{Number: c.shown.Run, models: map[uint64]*Model{}}
	c.shown.Runs = append(c.shown.Runs, r)
	return r
}

// committed notes a round's model, after its participants.
func (k *contracts) committed(r *Run, b ledger.Round, programs map[string]string) {
	m := &Model{Record: k.seq, Round: b.Round, AtMS: k.atMS, Digest: b.Model, Layout: b.Layout, Method: b.Method, base: b.Round - 1}
	for _, p := range b.Participants {
		m.parts = append(m.parts, part{p.Node, p.Weight, programs[p.Session]})
	}
	r.models[b.Round] = m
	if r.Rounds == 0 {
		r.FirstMS = k.atMS
	}
	r.Rounds++
	r.LastRound, r.LastMS = b.Round, k.atMS
}

// resumed notes that an older model goes on under the number behind that of a lost one.
func (k *contracts) resumed(r *Run, l ledger.LostModel) {
	m := &Model{Record: k.seq, Round: l.Round + 1, AtMS: k.atMS, base: l.Resumed}
	if old := r.models[l.Resumed]; old != nil {
		m.Digest, m.Layout, m.Method = old.Digest, old.Layout, old.Method
	}
	r.models[l.Round+1] = m
	r.LastRound = l.Round + 1
}

// maxBackwards bounds how many records that go back in time are named; the rest is counted.
const maxBackwards = 20

// Backwards is a record whose time is before that of an earlier one: the clock of an SN was wrong, or the record.
type Backwards struct {
	Record         uint64
	AtMS, LatestMS int64
}
