package planner

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// notWitnessed and unlike are the reasons against those whose claims do not fit together.
const (
	notWitnessed = "lacks what it merged as the plan has it"
	unlike       = "merged it otherwise"
	disagreeOn   = " do not agree on "
)

// bench is what the mergers of all parts say of one attempt.
type bench struct {
	facts        *facts
	parts        []state.Participant
	done         []reports.Report
	mergers      [][]int // of each part, the owner first
	contributors []int
	out          map[int]bool // whom this attempt has convicted
	found        []failure
	pairs        map[[2]int]bool // whom it named as not agreeing
}

// claims compares what the mergers of each part signed, if there are witnesses: who signed for what it could not have merged so is
// convicted, and so is a contributor that signed two things for one part. Where all went in alike and not all came out alike a
// majority of the part's mergers convicts the others; without one it is known only that two of them do not agree.
func (co *comparison) claims(done map[string]reports.Report, before []failure) []failure {
	p := co.facts.c.Plan
	if p.Witnesses < 2 {
		return nil
	}
	b := bench{facts: co.facts, parts: p.Participants, out: map[int]bool{}, pairs: map[[2]int]bool{}}
	for i, part := range b.parts {
		b.done = append(b.done, done[part.Session])
		b.out[i] = slices.ContainsFunc(before, func(f failure) bool { return f.node == part.Node })
		if part.Weight > 0 {
			b.contributors = append(b.contributors, i)
		}
	}
	b.mergers = co.facts.mergers(b.parts, p.Witnesses)
	for i := range b.parts {
		b.whole(i)
	}
	for owner := range b.parts {
		// What mergers sign of distances goes by what the owner passed on: a convicted one may have told each something else.
		if b.inputs(owner) && !b.out[owner] {
			b.outputs(owner)
		}
	}
	return b.found
}

// mergers are those of each participant's part, the owner first.
func (f *facts) mergers(parts []state.Participant, k uint32) [][]int {
	units, owns := make([]string, len(parts)), make([]bool, len(parts))
	for i, part := range parts {
		units[i], owns[i] = f.in.View.Unit(part), part.ShardLeaves > 0
	}
	return merge.Mergers(units, owns, int(k))
}

// maxInputs bounds what a node reports of inputs: of about 100 bytes each, in a report of at most 1 MiB.
const maxInputs = 8192

// reportable returns why one of the participants could not report all that it merges as a witness, or nil. Where one party has
// many nodes among few others each of its nodes has the same few as witnesses.
func (f *facts) reportable(parts []state.Participant) error {
	if f.c.Rules == nil || f.c.Rules.Witnesses == 0 {
		return nil
	}
	claims, contributors := make([]int, len(parts)), 0
	for i, mergers := range f.mergers(parts, f.c.Rules.Witnesses) {
		for _, m := range mergers {
			claims[m]++
		}
		if parts[i].Weight > 0 {
			contributors++
		}
	}
	if n := slices.Max(append(claims, 0)) * contributors; n > maxInputs {
		return &state.Error{
			Reason:  state.ReasonWitnesses,
			Message: fmt.Sprintf("with witnesses %d one of the peers would report what went into parts %d times, at most %d times can be", f.c.Rules.Witnesses, n, maxInputs),
			Remedy:  "ask for fewer witnesses, or let fewer peers own parts",
		}
	}
	return nil
}

// convict names a participant.
func (b *bench) convict(i int, proof bool, format string, args ...any) {
	if b.out[i] {
		return
	}
	b.out[i] = true
	node := b.parts[i].Node
	b.found = append(b.found, failure{node: node, blamed: node, at: b.facts.in.Now, proof: proof, reason: fmt.Sprintf(format, args...)})
}

// whole holds a participant to its claims: one of each part that it merges, in order, with an input of each contributor. An owner's
// is of what it sealed.
func (b *bench) whole(i int) {
	if b.out[i] {
		return
	}
	claims := b.done[i].Done.Claims
	for owner, mergers := range b.mergers {
		if !slices.Contains(mergers, i) {
			continue
		}
		if len(claims) == 0 || claims[0].Owner != owner || len(claims[0].Inputs) != len(b.contributors) {
			b.convict(i, true, "its report %s: of %s's part", notWitnessed, b.parts[owner].Node)
			return
		}
		if sealed := b.done[i].Done.ShardDigests; owner == i && (i >= len(sealed) || sealed[i] != claims[0].Shard().String()) {
			b.convict(i, true, "it sealed another digest of its part than it says that it merged")
			return
		}
		claims = claims[1:]
	}
	if len(claims) > 0 {
		b.convict(i, true, "its report %s: it has more", notWitnessed)
	}
}

// claim is what a merger that is not convicted says of a part.
func (b *bench) claim(merger, owner int) round.Claim {
	claims := b.done[merger].Done.Claims
	return claims[slices.IndexFunc(claims, func(c round.Claim) bool { return c.Owner == owner })]
}

// honest are the mergers of a part that are not convicted.
func (b *bench) honest(owner int) []int {
	return slices.DeleteFunc(slices.Clone(b.mergers[owner]), func(i int) bool { return b.out[i] })
}

// inputs judges what went into a part, and reports whether all mergers that are not convicted had the same. Signatures count only where
// something differs.
func (b *bench) inputs(owner int) bool {
	alike := true
	for at, contributor := range b.contributors {
		first := map[merge.Digest]int{} // who has which digest that is signed
		mergers := b.honest(owner)
		same := func(i int) bool {
			return b.claim(i, owner).Inputs[at].Digest == b.claim(mergers[0], owner).Inputs[at].Digest
		}
		if !slices.ContainsFunc(mergers, func(i int) bool { return !same(i) }) {
			continue
		}
		for _, i := range mergers {
			in := b.claim(i, owner).Inputs[at]
			signed := b.done[i].Signed
			if signed == nil || !signed(contributor, owner, in) {
				b.convict(i, true, "it reports a digest of what %s sent it that %s has not signed", b.parts[contributor].Node, b.parts[contributor].Node)
			} else if _, known := first[in.Digest]; !known {
				first[in.Digest] = i
			}
		}
		if len(first) > 1 {
			digests := slices.SortedFunc(maps.Keys(first), func(x, y merge.Digest) int { return bytes.Compare(x[:], y[:]) })
			b.convict(contributor, true, "it signed that it sent %.12s of its model to %s and %.12s to %s, which both merge %s's part",
				digests[0].String(), b.parts[first[digests[0]]].Node, digests[1].String(), b.parts[first[digests[1]]].Node, b.parts[owner].Node)
			alike = false
		}
	}
	return alike
}

// outputs judges what came out of a part whose mergers had the same.
func (b *bench) outputs(owner int) {
	mergers := b.honest(owner)
	by := map[merge.Digest][]int{}
	for _, i := range mergers {
		digest := b.claim(i, owner).Shard()
		by[digest] = append(by[digest], i)
	}
	if len(by) < 2 {
		return
	}
	for digest, group := range by {
		if 2*len(group) <= len(b.mergers[owner]) {
			continue
		}
		for _, i := range mergers {
			if got := b.claim(i, owner).Shard(); got != digest {
				// It is proven beyond this attempt only if most of all are against it: two liars are most of three.
				b.convict(i, 2*len(group) > len(b.facts.c.Active()), "it %s than most who merged %s's part: %.12s, they have %.12s", unlike, b.parts[owner].Node, got.String(), digest.String())
			}
		}
		return
	}
	for k, i := range mergers {
		for _, j := range mergers[k+1:] {
			pair := [2]int{min(i, j), max(i, j)}
			if b.claim(i, owner).Shard() == b.claim(j, owner).Shard() || b.pairs[pair] {
				continue
			}
			b.pairs[pair] = true
			one, two := b.parts[i].Node, b.parts[j].Node
			b.found = append(b.found, failure{
				node: one, blamed: two, at: b.facts.in.Now,
				line: fmt.Sprintf("%s and %s%swhat %s's part merges to: one of them merges wrongly", one, two, disagreeOn, b.parts[owner].Node),
			})
		}
	}
}
