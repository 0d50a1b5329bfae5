package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// newWitnessed is a table of n peers of which k merge each part.
func newWitnessed(t *testing.T, k, n int, minPeers uint32) *table {
	b := newTableOf(t, state.Rules{Witnesses: uint32(k)}, n, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = minPeers }) //nolint:gosec // small
	for i := range n {
		b.apply(state.RegisterNode{
			Node:      state.Node{Name: name(i), Role: naming.RoleSL, PeerID: name(i), SPIFFEID: "spiffe://td/swarm/sl/" + name(i)},
			TokenHash: strings.Repeat("1", 64),
		})
	}
	return b
}

// lie changes what one says that it merged of an owner's part.
type lie func(merger, owner int, c *round.Claim)

// digest is one whose hex digits are those.
func digest(format string, args ...any) merge.Digest {
	d, err := merge.ParseDigest(fmt.Sprintf(format, args...))
	if err != nil {
		panic(err)
	}
	return d
}

// claims has all participants of the running attempt report what they merged, as true as lie leaves it. Numbers are those of names.
// Signatures are good if they say which digest they are of, and by whom.
func (b *table) claims(lies lie) {
	plan := b.contract().Plan
	if plan == nil {
		return
	}
	var units []string
	var owns []bool
	var sealed []string
	for _, p := range plan.Participants {
		units, owns = append(units, p.SPIFFEID), append(owns, p.ShardLeaves > 0)
		c := round.Claim{Merged: digest("%064x", number(p.Node)+1)}
		if lies != nil {
			lies(number(p.Node), number(p.Node), &c)
		}
		sealed = append(sealed, c.Shard().String())
	}
	mergers := merge.Mergers(units, owns, int(plan.Witnesses))
	for i, p := range plan.Participants {
		done := &round.Done{Round: plan.Round, Attempt: plan.Attempt, ModelDigest: fmt.Sprintf("%064x", 99), ShardDigests: sealed}
		for owner, o := range plan.Participants {
			if !slices.Contains(mergers[owner], i) {
				continue
			}
			c := round.Claim{Owner: owner, Merged: digest("%064x", number(o.Node)+1)}
			for _, from := range plan.Participants {
				sent := digest("%062x%s%s", 7, from.Node[len(from.Node)-1:], o.Node[len(o.Node)-1:])
				c.Inputs = append(c.Inputs, round.Input{Digest: sent, Signature: []byte(from.Node + sent.String())})
			}
			if lies != nil {
				lies(number(p.Node), number(o.Node), &c)
			}
			if c.Owner >= 0 {
				done.Claims = append(done.Claims, c)
			}
		}
		signed := func(contributor, _ int, in round.Input) bool {
			return string(in.Signature) == plan.Participants[contributor].Node+in.Digest.String()
		}
		b.reports[p.Session] = reports.Report{Done: done, Signed: signed, At: b.now}
	}
}

// TestWhoIsLeftOutForClaims: five peers, of which two or three merge each part.
func TestWhoIsLeftOutForClaims(t *testing.T) {
	other := digest("%s", strings.Repeat("e", 64))
	merges := func(who int, whose ...int) lie {
		return func(merger, owner int, c *round.Claim) {
			if merger == who && slices.Contains(whose, owner) {
				c.Merged = other
			}
		}
	}
	signs := func(from int, signed bool, to ...int) lie {
		return func(merger, owner int, c *round.Claim) {
			if len(c.Inputs) > 0 && slices.Contains(to, merger) && owner == 1 {
				c.Inputs[from] = round.Input{Digest: other, Signature: []byte("none")}
				if signed {
					c.Inputs[from].Signature = []byte(name(from) + other.String())
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		k    int
		lies lie
		out  string // who is left out of the third attempt
		says string // what is told after the first
	}{
		{"all merge alike", 3, nil, "", ""},
		{"an owner merges wrongly and tells all the same", 3, merges(1, 1), "sl-1", "sl-1: it merged it otherwise than most who merged sl-1's part"},
		{"a witness lies", 3, merges(2, 1), "sl-2", "sl-2: it merged it otherwise than most who merged sl-1's part"},
		{"two of three lie alike", 3, func(m, o int, c *round.Claim) { merges(1, 1)(m, o, c); merges(2, 1)(m, o, c) }, "sl-3", "sl-3: it merged it otherwise"},
		{"three say three things", 3, func(m, o int, c *round.Claim) {
			if merges(1, 1)(m, o, c); m == 2 && o == 1 {
				c.Merged = digest("%s", strings.Repeat("d", 64))
			}
		}, "", "sl-1 and sl-2 do not agree on what sl-1's part merges to: one of them merges wrongly; sl-1 and sl-3 do not agree"},
		{"an owner merges wrongly before a single witness", 2, merges(1, 1), "", "sl-1 and sl-2 do not agree on what sl-1's part merges to"},
		{"a single witness lies", 2, merges(2, 1), "", "sl-1 and sl-2 do not agree on what sl-1's part merges to"},
		{"a contributor signs two things", 2, signs(4, true, 2), "sl-4", "sl-4: it signed that it sent"},
		{"a contributor that is the owner signs two things", 2, signs(1, true, 2), "sl-1", "sl-1: it signed that it sent"},
		{"a witness reports what nobody has signed", 2, signs(4, false, 2), "sl-2", "sl-2: it reports a digest of what sl-4 sent it that sl-4 has not signed"},
		{"an owner does", 3, signs(4, false, 1), "sl-1", "sl-1: it reports a digest"},
		{"all report the same that nobody has signed", 3, signs(4, false, 1, 2, 3), "", ""}, // then nobody doubts it
		{"a claim is left out", 2, func(m, o int, c *round.Claim) {
			if m == 2 && o == 1 {
				c.Owner = -1
			}
		}, "sl-2", "sl-2: its report lacks what it merged"},
		{"claims on another's part", 2, func(m, o int, c *round.Claim) {
			if m == 2 && o == 1 {
				c.Owner = 0
			}
		}, "sl-2", "sl-2: its report lacks"},
		{"an input too few", 2, func(m, o int, c *round.Claim) {
			if m == 2 && o == 1 {
				c.Inputs = c.Inputs[1:]
			}
		}, "sl-2", "sl-2: its report lacks"},
		{"an owner seals what it does not claim", 2, func(m, o int, c *round.Claim) {
			if m == 1 && o == 1 && c.Inputs == nil { // the seal
				c.Merged = other
			}
		}, "sl-1", "sl-1: it sealed another digest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newWitnessed(t, tt.k, 5, 3)
			b.ready(1, 0, 1, 2, 3, 4)
			b.follow()
			for range 2 {
				b.claims(tt.lies)
				why := b.follow()
				if tt.says == "" {
					if b.contract().Round() != 1 {
						t.Fatalf("not committed: %s", why)
					}
					return
				}
				if why.Kind != planner.WaitRetry || !strings.Contains(why.Detail, tt.says) || b.leftOut(5) != "" {
					t.Fatalf("%s: plan without %q", why, b.leftOut(5))
				}
				if text := strings.Join(explain.Lines(why, b.now), "\n"); !strings.Contains(text, "to do: one of the peers named above") {
					t.Errorf("no remedy in\n%s", text)
				}
				b.now = b.now.Add(time.Second)
				b.follow()
			}
			if got := b.leftOut(5); got != tt.out || b.contract().Round() != 0 {
				t.Errorf("attempt 3 is without %q, want %q; round %d is committed", got, tt.out, b.contract().Round())
			}
		})
	}
}

// TestAnOwnerThatIsConvictedConvictsNobody: an owner seals two things, and has its witnesses claim two, as what they sign of distances
// goes by the norms that it has passed on.
func TestAnOwnerThatIsConvictedConvictsNobody(t *testing.T) {
	for _, k := range []int{3, 5} {
		b := newWitnessed(t, k, 6, 3)
		b.ready(1, 0, 1, 2, 3, 4, 5)
		b.follow()
		other := digest("%s", strings.Repeat("e", 64))
		b.claims(func(merger, owner int, c *round.Claim) {
			if merger == 2 && owner == 1 {
				c.Merged = other
			}
		})
		done := b.reports[id(2)].Done
		done.ShardDigests = slices.Clone(done.ShardDigests)
		done.ShardDigests[1] = other.String()
		why := b.follow()
		if text := why.Detail; !strings.Contains(text, "sl-1: it sealed digest") || strings.Contains(text, "sl-2:") || strings.Contains(text, "agree") {
			t.Errorf("%d merge each part: %s", k, why)
		}
	}
}

// again has sessions offer what they trained after a skipped Sync.
func (b *table) again(sessions ...int) {
	for _, i := range sessions {
		b.reports[id(i)] = reports.Report{Ready: &round.Ready{Seq: b.contract().Sessions[id(i)].SkippedSeq + 1, Weight: 1}, At: b.now}
	}
}

// TestAPairThatDisagreesIsParted: with two mergers nobody can tell which of them lies. After the grace one of them is left out, and if that was
// the honest one the liar disagrees with the next, and goes itself.
func TestAPairThatDisagreesIsParted(t *testing.T) {
	for liar := range 4 {
		b := newWitnessed(t, 2, 4, 2)
		b.ready(1, 0, 1, 2, 3)
		b.follow()
		for range 60 {
			if b.contract().Round() > 0 {
				break
			}
			b.claims(func(merger, owner int, c *round.Claim) {
				if merger == liar && owner == liar {
					c.Merged = digest("%s", strings.Repeat("e", 64))
				}
			})
			b.follow()
			b.now = b.now.Add(5 * time.Second)
			if b.follow(); b.contract().Plan == nil && b.contract().Round() == 0 { // both whom it was between had leaves of others
				b.again(0, 1, 2, 3)
				b.follow()
			}
		}
		c := b.contract()
		if c.Round() != 1 || slices.Contains(c.Committed.Participants, name(liar)) {
			t.Errorf("sl-%d lies: round %d of %+v", liar, c.Round(), c.Committed)
		}
	}
	b := newWitnessed(t, 2, 2, 2)
	b.ready(1, 0, 1)
	b.follow()
	for range 30 { // two alone: whoever lies, nothing is ever committed
		b.claims(func(merger, owner int, c *round.Claim) {
			if merger == 0 && owner == 1 {
				c.Merged = digest("%s", strings.Repeat("e", 64))
			}
		})
		b.follow()
		b.now = b.now.Add(5 * time.Second)
		b.follow()
	}
	text := strings.Join(explain.Lines(b.follow(), b.now), "\n")
	if b.contract().Round() != 0 || !strings.Contains(text, "sl-1 and sl-0 do not agree on what sl-1's part merges to") || !strings.Contains(text, "ban node NAME") {
		t.Errorf("round %d\n%s", b.contract().Round(), text)
	}
}

// TestWhoGetsAnIDOfItsOwn: a node of a SPIFFE ID that others have too may register with its own while an attempt runs. From then on
// others would sign another plan than they began, so there is another.
func TestWhoGetsAnIDOfItsOwn(t *testing.T) {
	for _, k := range []uint32{0, 2} {
		b := newTableOf(t, state.Rules{Witnesses: k}, 4, func(int, *state.OpenSession) {})
		renew := func(id string) {
			b.apply(state.RegisterNode{
				Node:      state.Node{Name: name(1), Role: naming.RoleSL, PeerID: name(1), SPIFFEID: id},
				TokenHash: strings.Repeat("1", 64),
			})
		}
		renew("spiffe://td/swarm/sl")
		b.ready(1, 0, 1, 2, 3)
		b.follow()
		before := b.contract().Plan
		renew("spiffe://td/swarm/sl/" + name(1))
		b.follow()
		p := b.contract().Plan
		if k == 0 && p.Attempt != before.Attempt {
			t.Errorf("without witnesses attempt %d is given up", before.Attempt)
		}
		if k > 0 && (p == nil || p.Attempt != before.Attempt+1 || p.Participants[1].SPIFFEID == "") {
			t.Errorf("attempt %d goes on: %+v", before.Attempt, p)
		}
	}
}

// TestTooFewForWitnesses: a round waits until as many parties own parts as are to merge each.
func TestTooFewForWitnesses(t *testing.T) {
	b := newTableOf(t, state.Rules{Witnesses: 3}, 4, func(int, *state.OpenSession) {})
	for i, of := range []int{0, 1, 1, 3} { // two nodes of one party
		b.apply(state.RegisterNode{
			Node:      state.Node{Name: name(i), Role: naming.RoleSL, PeerID: name(i), SPIFFEID: "spiffe://td/swarm/sl/" + name(of)},
			TokenHash: strings.Repeat("1", 64),
		})
	}
	b.ready(1, 0, 1, 2)
	w := b.follow()
	if b.contract().Plan != nil || w.Kind != planner.WaitWitnesses || !strings.Contains(w.String(), "witnesses 3 needs as many parties that own parts of the model: there are 2") {
		t.Fatalf("%s: %s", w.Kind, w)
	}
	if text := strings.Join(explain.Lines(w, b.now), "\n"); !strings.Contains(text, "to do: start more peers, or end all sessions and change the rules") {
		t.Error(text)
	}
	b.ready(1, 3)
	b.follow()
	p := b.contract().Plan
	if p == nil || p.Witnesses != 3 || p.Participants[0].SPIFFEID != "spiffe://td/swarm/sl/sl-0" {
		t.Fatalf("%+v", p)
	}
	b.dies(3)
	if w := b.follow(); b.contract().Plan != nil {
		t.Fatalf("two merge under witnesses 3: %s", w)
	}
}

// TestManyOfOneParty: each of them has the same few witnesses, who could not report all that they merge.
func TestManyOfOneParty(t *testing.T) {
	b := newTableOf(t, state.Rules{Witnesses: 2}, 101, func(_ int, o *state.OpenSession) { o.Terms.Leaves = 1000 })
	all := make([]int, 101)
	for i := range all {
		all[i] = i
		b.apply(state.RegisterNode{
			Node:      state.Node{Name: name(i), Role: naming.RoleSL, PeerID: name(i), SPIFFEID: "spiffe://td/swarm/sl/" + name(max(0, i-99))},
			TokenHash: strings.Repeat("1", 64),
		})
	}
	b.ready(1, all...)
	if w := b.follow(); w.Kind != planner.WaitWitnesses || !strings.Contains(w.String(), "10201 times, at most 8192") {
		t.Errorf("%s: %s", w.Kind, w)
	}
}

// given follows to whom each participant's leaves have gone as to witnesses, as every node keeps it of its own.
type given map[string]map[uint64][]string // by session and its Sync, leaf: nodes

// refuse has those refuse the running attempt whose leaves would go to more witnesses than may get them.
func (b *table) refuse(g given) (refused int) {
	plan := b.contract().Plan
	var units []string
	var owns []bool
	for _, p := range plan.Participants {
		units, owns = append(units, cmp.Or(p.SPIFFEID, p.Node)), append(owns, p.ShardLeaves > 0)
	}
	mergers := merge.Mergers(units, owns, int(plan.Witnesses))
	for i, from := range plan.Participants {
		key, full := fmt.Sprint(from.Session, from.Seq), false
		next := map[uint64][]string{}
		for leaf, to := range g[key] {
			next[leaf] = slices.Clone(to)
		}
		for owner, o := range plan.Participants {
			for _, w := range mergers[owner][1:] {
				for _, r := range o.Runs() {
					for leaf := r.First; leaf < r.First+r.Leaves; leaf++ {
						if to := plan.Participants[w].Node; w != i && !slices.Contains(next[leaf], to) {
							next[leaf] = append(next[leaf], to)
							full = full || len(next[leaf]) > 2*(int(plan.Witnesses)-1)
						}
					}
				}
			}
		}
		if full {
			b.refuses(number(from.Node))
			refused++
			continue
		}
		g[key] = next
	}
	return refused
}

// TestWitnessesThatComeAndGoSitOut: each time two leave, one after the other, others' leaves would go to a third witness. Who refuses
// that is not to blame.
func TestWitnessesThatComeAndGoSitOut(t *testing.T) {
	b := newTableOf(t, state.Rules{Witnesses: 2}, 7, func(_ int, o *state.OpenSession) { o.Terms.Leaves = 7 }) // so that who leaves has one deputy
	g := given{}
	skips := 0
	for range 40 {
		for i := range 7 {
			b.reports[id(i)] = reports.Report{At: b.now, Ready: &round.Ready{Seq: b.contract().Sessions[id(i)].SkippedSeq + 1, Weight: 1}}
		}
		b.now = b.now.Add(5 * time.Second)
		b.follow()
		if b.contract().Plan == nil {
			t.Fatal("no plan")
		}
		for i := range 7 {
			if b.contract().Plan.Participant(id(i)) == nil && i != 1 && i != 2 {
				t.Fatalf("after %d skips %s is left out", skips, b.leftOut(7))
			}
		}
		if b.contract().Plan.Participant(id(1)) == nil && b.contract().Plan.Participant(id(2)) == nil {
			return
		}
		for _, i := range []int{1, 2} {
			b.refuse(g)
			b.now = b.now.Add(100 * time.Millisecond)
			if c := b.dies(i).Command; c != nil {
				b.apply(c)
			}
		}
		if b.refuse(g) == 0 {
			t.Fatal("nobody refuses")
		}
		for range 10 {
			d := b.decide()
			if _, ok := d.Command.(state.SkipRound); ok {
				skips++
			}
			if d.Command == nil || b.contract().Plan == nil {
				break
			}
			b.apply(d.Command)
		}
		for _, i := range []int{1, 2} {
			b.apply(state.SetLive{Node: name(i), Live: true, AtMS: b.now.UnixMilli()})
		}
	}
	t.Errorf("%d skips, and both still take part", skips)
}
