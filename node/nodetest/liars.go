package nodetest

import (
	"maps"
	"sync"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// Liars are the SLs that do not merge, send or report what they should.
type Liars struct {
	mu      sync.Mutex    // guards what follows
	mishear map[pair]bool // {receiver, owner}: the receiver reports another digest than that of what it got
	cheat   map[pair]bool // {owner, receiver}: the owner sends other bytes than it merged, and seals them
	spoilt  map[spoilt]map[uint32]merge.Digest
	wrong   map[string]bool        // who sends everybody what it has not merged
	sealed  map[string]wronglyDone // what such a one has sealed last
	witness map[pair]bool          // {witness, owner}: it reports that it merged the owner's part otherwise
	twofold map[pair]bool          // {contributor, merger}: the merger is sent something else than others
	accuses map[string]bool        // who lays what it has merged to another
	jobs    map[string]*round.Plan // that an SL carries out
}

// spoilt names what a cheating owner sends to one receiver under a plan.
type spoilt struct {
	pair
	plan merge.Digest
}

func newLiars() *Liars {
	return &Liars{
		mishear: map[pair]bool{}, cheat: map[pair]bool{}, spoilt: map[spoilt]map[uint32]merge.Digest{}, wrong: map[string]bool{},
		sealed: map[string]wronglyDone{}, witness: map[pair]bool{}, twofold: map[pair]bool{}, accuses: map[string]bool{},
		jobs: map[string]*round.Plan{},
	}
}

// LieAbout has an SL report digests of these owners' shards, and of the model, that are not those of what it was sent, and sign
// that.
func (l *Liars) LieAbout(name string, owners ...string) {
	l.set(l.mishear, name, owners)
}

// Cheat has an SL send these receivers other merged bytes than it holds itself, under a seal that fits them.
func (l *Liars) Cheat(name string, receivers ...string) {
	l.set(l.cheat, name, receivers)
}

// MergeWrongly has an SL send everybody the same other bytes than its part merges to, seal and report them.
func (l *Liars) MergeWrongly(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong[name] = true
}

// LieAsWitness has an SL report that these owners' parts merge to something else than it found.
func (l *Liars) LieAsWitness(name string, owners ...string) {
	l.set(l.witness, name, owners)
}

// Honest ends all lies of an SL.
func (l *Liars) Honest(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wrong, name)
	delete(l.accuses, name)
	for _, lies := range []map[pair]bool{l.mishear, l.cheat, l.witness, l.twofold} {
		maps.DeleteFunc(lies, func(p pair, _ bool) bool { return p[0] == name })
	}
}

func (l *Liars) set(lies map[pair]bool, name string, others []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range others {
		lies[pair{name, other}] = true
	}
}

func (l *Liars) lies(lies map[pair]bool, name, other string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lies[pair{name, other}]
}

// TellTwoThings has an SL contribute something else to these mergers than to others, and sign what it sends each.
func (l *Liars) TellTwoThings(name string, to ...string) {
	l.set(l.twofold, name, to)
}

// Accuse has an SL, until Honest, report of each attempt that it has merged that it could not go on with the first other
// participant.
func (l *Liars) Accuse(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accuses[name] = true
}

func (l *Liars) accusing(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accuses[name]
}

func (l *Liars) mergesWrongly(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong[name]
}
