package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/merge"
)

// keptModels is how many committed models are at hand: what peers train from, however long they stood still.
const keptModels = 64

// Violation is something that must never be.
type Violation struct {
	At   time.Time
	What string
}

// judge reads the SNs' ledgers and the programs' events as they grow and holds them to one another. Its methods are for one
// goroutine.
type judge struct {
	layout *merge.Layout
	chain  chain
	peers  []*peerLog
	models models
	found  []Violation
	// When what a peer offers was changed on purpose, and when what it reads was.
	misoffered, misread spans

	took      int // models that programs have taken and that the ledger has
	computed  int // rounds that were computed again
	skipped   int // rounds that could not be, since an offer was changed on purpose
	wrongRead int // models that a program refused since their bytes were not the committed ones
}

// chain is what all SNs have on record.
type chain struct {
	violate func(format string, args ...any)
	head    ledger.Head
	hashes  []string // of the records, from all SNs alike
	copies  []*copyOf
	sns     int                 // so many of the copies, the first ones, are of SNs that must have it all
	rounds  map[string][]*round // of a contract, ascending
	lost    int                 // models that nobody held any more
}

// copyOf is one SN's ledger.
type copyOf struct {
	name, path string
	at         int64 // read so far
	records    int
}

// peerLog is what a peer's program has told.
type peerLog struct {
	name, path string
	at         int64
	offers     []event
	taken      []event           // that the ledger does not have yet
	last       map[string]uint64 // newest round that was taken, by contract
	ended      map[string]event
	session    string
	inSession  uint64 // newest round of the session
}

// round is a committed one, or, without participants, one that training went back to.
type round struct {
	contract string
	number   uint64
	model    string // digest; empty: training began anew
	atMS     int64
	by       []ledger.Participant
}

// newJudge judges nodes; late may be nil.
func newJudge(dir string, layout *merge.Layout, sns, sls []*node, late *node) *judge {
	j := &judge{layout: layout, models: models{dir: dir, layout: layout, by: map[string][]byte{}}, misoffered: spans{}, misread: spans{}}
	j.chain = chain{violate: j.violate, sns: len(sns), rounds: map[string][]*round{}}
	if late != nil {
		sns = append(slices.Clone(sns), late)
	}
	for _, n := range sns {
		j.chain.copies = append(j.chain.copies, &copyOf{name: n.name, path: filepath.Join(n.state, "ledger.jsonl")})
	}
	for _, n := range sls {
		j.peers = append(j.peers, &peerLog{name: n.name, path: eventFile(dir, n.name), last: map[string]uint64{}, ended: map[string]event{}})
	}
	return j
}

func (j *judge) violate(format string, args ...any) {
	j.found = append(j.found, Violation{time.Now(), fmt.Sprintf(format, args...)})
}

// look reads what is new. Ledgers come first: what a round was made of is on file before the round is.
func (j *judge) look() error {
	var fresh []*round
	for _, c := range j.chain.copies {
		more, err := j.chain.read(c)
		if err != nil {
			return err
		}
		fresh = append(fresh, more...)
	}
	for _, p := range j.peers {
		if err := j.readEvents(p); err != nil {
			return err
		}
	}
	for _, r := range fresh {
		if err := j.compute(r); err != nil {
			return err
		}
	}
	for _, p := range j.peers {
		j.matchTaken(p)
	}
	return nil
}

// readFrom returns the whole lines of a file behind an offset.
func readFrom(path string, at int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.NewSectionReader(f, at, 1<<40))
	if err != nil {
		return nil, err
	}
	return raw[:bytes.LastIndexByte(raw, '\n')+1], nil
}
