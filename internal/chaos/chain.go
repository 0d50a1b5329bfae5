package chaos

import (
	"cmp"
	"os"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// read holds the new part of an SN's ledger to what all of them said before, and returns rounds that are new.
func (h *chain) read(c *copyOf) (fresh []*round, err error) {
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
		if c.records <= len(h.hashes) {
			if ledger.Hash(line) != h.hashes[c.records-1] {
				h.violate("record %d of %s is not that of the other SNs", c.records, c.name)
				return fresh, nil
			}
			continue
		}
		head, err := ledger.Follow(h.head, line)
		if err != nil {
			h.violate("record %d of %s: %v", c.records, c.name, err)
			return fresh, nil
		}
		h.head = head
		h.hashes = append(h.hashes, head.Hash)
		if r := h.record(line); r != nil {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// record takes a new record; it returns the round if it is one.
func (h *chain) record(line []byte) *round {
	rec, body, err := ledger.Parse(line)
	if err != nil {
		h.violate("record %d: %v", h.head.Length, err)
		return nil
	}
	switch b := body.(type) {
	case ledger.Round:
		r := &round{contract: b.Contract, number: b.Round, model: b.Model, atMS: rec.AtMS, by: b.Participants}
		h.add(r)
		return r
	case ledger.AdoptedRound:
		h.add(&round{contract: b.Proof.Contract, number: b.Round, model: b.Proof.Model, atMS: rec.AtMS})
	case ledger.LostModel:
		h.lost++
		model := ""
		if old := h.find(b.Contract, b.Resumed); old != nil {
			model = old.model
		} else {
			h.violate("%s lost the model of round %d, and all older ones", b.Contract, b.Round)
		}
		h.add(&round{contract: b.Contract, number: b.Round + 1, model: model, atMS: rec.AtMS})
	}
	return nil
}

func (h *chain) add(r *round) {
	if last := h.last(r.contract); last != nil && r.number <= last.number {
		h.violate("round %d of %s was committed after round %d", r.number, r.contract, last.number)
	}
	h.rounds[r.contract] = append(h.rounds[r.contract], r)
}

// last is the newest round of a contract, nil before the first.
func (h *chain) last(contract string) *round {
	all := h.rounds[contract]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

func (h *chain) find(contract string, number uint64) *round {
	all := h.rounds[contract]
	i, ok := slices.BinarySearchFunc(all, number, func(r *round, n uint64) int { return cmp.Compare(r.number, n) })
	if !ok {
		return nil
	}
	return all[i]
}

// same reports whether all SNs have the whole ledger, but the late one.
func (h *chain) same() bool {
	return !slices.ContainsFunc(h.copies[:h.sns], func(c *copyOf) bool { return c.records < len(h.hashes) })
}
