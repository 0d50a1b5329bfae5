package audit

import "github.com/swarmd/swarmd/consensus/ledger"

// past are the records so far, as those name them who sign what comes later.
type past struct {
	*findings
	head      ledger.Head
	hashes    []string // of all records so far
	witnessed uint64   // records that participants of a later round, or an operator, signed as their past
}

func (p *past) add(head ledger.Head) {
	p.head = head
	p.hashes = append(p.hashes, head.Hash)
}

// witness holds the past that participants or an operator signed to the one in the file.
func (p *past) witness(field string, w ledger.Witness) {
	switch {
	case w.Length == 0 || w.Length > uint64(len(p.hashes)):
		p.bad(field+".length", "%d records can't have been there", w.Length)
	case p.hashes[w.Length-1] != w.Hash:
		p.bad(field+".hash", "when this was signed record %d had hash %.12s, here it has %.12s: one of the records 1 to %d was changed", w.Length, w.Hash, p.hashes[w.Length-1], w.Length)
	default:
		p.witnessed = max(p.witnessed, w.Length)
	}
}
