package chaos

import (
	"bytes"
	"cmp"
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
	dir    string
	layout *merge.Layout
	head   ledger.Head
	hashes []string // of the records, from all SNs alike
	copies []*copyOf
	sns    int // so many of the copies, the first ones, are of SNs that must have it all
	peers  []*peerLog
	rounds map[string][]*round // of a contract, ascending
	models map[string][]byte   // the newest, by digest
	recent []string
	// When what a peer offers was changed on purpose, and when what it reads was.
	misoffered, misread spans

	found     []Violation
	took      int // models that programs have taken and that the ledger has
	computed  int // rounds that were computed again
	skipped   int // rounds that could not be, since an offer was changed on purpose
	wrongRead int // models that a program refused since their bytes were not the committed ones
	lost      int // models that nobody held any more
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
	j := &judge{sns: len(sns), dir: dir, layout: layout, rounds: map[string][]*round{}, models: map[string][]byte{}, misoffered: spans{}, misread: spans{}}
	if late != nil {
		sns = append(slices.Clone(sns), late)
	}
	for _, n := range sns {
		j.copies = append(j.copies, &copyOf{name: n.name, path: filepath.Join(n.state, "ledger.jsonl")})
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
	for _, c := range j.copies {
		more, err := j.readLedger(c)
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

// readLedger holds the new part of an SN's ledger to what all of them said before, and returns rounds that are new.
func (j *judge) readLedger(c *copyOf) (fresh []*round, err error) {
	if info, err := os.Stat(c.path); err != nil || info.Size() < c.at {
		c.at, c.records = 0, 0 // It was lost, or cut off where a crash had left it.
	}
	raw, err := readFrom(c.path, c.at)
	if err != nil {
		return nil, err
	}
	for line, rest, ok := ledger.CutLine(raw); ok; line, rest, ok = ledger.CutLine(rest) {
		c.at += int64(len(line))
		c.records++
		if c.records <= len(j.hashes) {
			if ledger.Hash(line) != j.hashes[c.records-1] {
				j.violate("record %d of %s is not that of the other SNs", c.records, c.name)
				return fresh, nil
			}
			continue
		}
		head, err := ledger.Follow(j.head, line)
		if err != nil {
			j.violate("record %d of %s: %v", c.records, c.name, err)
			return fresh, nil
		}
		j.head = head
		j.hashes = append(j.hashes, head.Hash)
		if r := j.record(line); r != nil {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// record takes a new record; it returns the round if it is one.
func (j *judge) record(line []byte) *round {
	rec, body, err := ledger.Parse(line)
	if err != nil {
		j.violate("record %d: %v", j.head.Length, err)
		return nil
	}
	switch b := body.(type) {
	case ledger.Round:
		r := &round{contract: b.Contract, number: b.Round, model: b.Model, atMS: rec.AtMS, by: b.Participants}
		j.add(r)
		return r
	case ledger.AdoptedRound:
		j.add(&round{contract: b.Proof.Contract, number: b.Round, model: b.Proof.Model, atMS: rec.AtMS})
	case ledger.LostModel:
		j.lost++
		model := ""
		if old := j.find(b.Contract, b.Resumed); old != nil {
			model = old.model
		} else {
			j.violate("%s lost the model of round %d, and all older ones", b.Contract, b.Round)
		}
		j.add(&round{contract: b.Contract, number: b.Round + 1, model: model, atMS: rec.AtMS})
	}
	return nil
}

func (j *judge) add(r *round) {
	if last := j.last(r.contract); last != nil && r.number <= last.number {
		j.violate("round %d of %s was committed after round %d", r.number, r.contract, last.number)
	}
	j.rounds[r.contract] = append(j.rounds[r.contract], r)
}

// last is the newest round of a contract, nil before the first.
func (j *judge) last(contract string) *round {
	all := j.rounds[contract]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

func (j *judge) find(contract string, number uint64) *round {
	all := j.rounds[contract]
	i, ok := slices.BinarySearchFunc(all, number, func(r *round, n uint64) int { return cmp.Compare(r.number, n) })
	if !ok {
		return nil
	}
	return all[i]
}
