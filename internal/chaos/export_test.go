package chaos

import (
	"path/filepath"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Kinds are what waves are made of for root.
func Kinds() []Kind { return waveKinds(true, nil) }

// Story is a judge with what it reads, for tests.
type Story struct {
	*judge
	Dir string
}

// NewStory has SNs sn-1 and sn-2 and SLs sl-1 and sl-2, in a folder.
func NewStory(dir string, floats int) (*Story, error) {
	layout, err := layoutOf(floats)
	if err != nil {
		return nil, err
	}
	var sns, sls []*node
	for i := range 2 {
		sns = append(sns, &node{name: snName(i), state: filepath.Join(dir, snName(i))})
		sls = append(sls, &node{name: slName(i)})
	}
	return &Story{newJudge(dir, layout, sns, sls, nil), dir}, nil
}

// Look reads all that is new and returns what is wrong so far.
func (s *Story) Look() (found []string, err error) {
	err = s.look()
	for _, v := range s.found {
		found = append(found, v.What)
	}
	return found, err
}

// Computed is how many rounds were computed again, and how many models found in the ledger.
func (s *Story) Computed() (rounds, taken int) { return s.computed, s.took }

// Offer is what a peer offers.
func (s *Story) Offer(peer string, round uint64, base []byte) []byte {
	b := make([]byte, s.layout.Bytes())
	offer(b, peer, round, base)
	return b
}

// Mean merges what peers offer.
func (s *Story) Mean(round uint64, base []byte, peers ...string) (model []byte, digest string, err error) {
	var weights []uint32
	var models [][]byte
	for _, p := range peers {
		weights, models = append(weights, weightOf(p)), append(models, s.Offer(p, round, base))
	}
	model, err = mergeOf(s.layout, weights, models)
	return model, digestOf(s.layout, model), err
}

// Part is a participant as the ledger has it.
func Part(peer, session string) ledger.Participant {
	return ledger.Participant{Node: peer, Session: session, Weight: weightOf(peer)}
}

// Digest names a model.
func (s *Story) Digest(model []byte) string { return digestOf(s.layout, model) }

// Taint says that a peer's files are changed from a time on.
func (s *Story) Taint(peer string, at int64) { s.misoffered.begin(peer, at) }

// Clean ends Taint.
func (s *Story) Clean(peer string, at int64) { s.misoffered.end(peer, at) }
