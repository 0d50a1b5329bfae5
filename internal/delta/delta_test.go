package delta_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/delta"
)

// contract is a contract of peers that train.
func contract(peers int) *swarmv1.ContractView {
	v := &swarmv1.ContractView{
		Name: "study", Run: 1, Phase: "training", Terms: &swarmv1.Terms{LayoutDigest: strings.Repeat("ab", 32), Method: "mean", MinPeers: 2, Leaves: 128},
	}
	for i := range peers {
		v.Sessions = append(v.Sessions, session(i))
	}
	return v
}

func session(i int) *swarmv1.Session {
	return &swarmv1.Session{
		Id: fmt.Sprintf("%032x", i*7919), Node: fmt.Sprintf("sl-%d", i), PeerId: fmt.Sprintf("12D3KooW%044d", i), Host: "127.0.0.1", FsPort: 31000 + uint32(i),
		Live: true, State: "open", CheckinMode: "snapshot", Weight: 10, Run: 1, SpiffeId: fmt.Sprintf("spiffe://swarm.example/swarm/sl/sl-%d", i),
		Isolation: "none: process runtime", Proof: fmt.Sprintf("%064d", i), CheckinFrom: "none", ClosedRounds: uint64(i),
	}
}

// plan plans the next round for all sessions that are open.
func plan(v *swarmv1.ContractView) {
	v.Plan = &swarmv1.Plan{
		Run: v.Run, Round: v.GetCommitted().GetRound() + 1, Attempt: v.GetPlan().GetAttempt() + 1, Method: "mean", LedgerHead: fmt.Sprintf("%064x", v.Index),
	}
	for i, x := range v.Sessions {
		if x.State == "open" {
			v.Plan.Participants = append(v.Plan.Participants, &swarmv1.Participant{
				Session: x.Id, Node: x.Node, PeerId: x.PeerId, Host: x.Host, FsPort: x.FsPort, Weight: x.Weight, SpiffeId: x.SpiffeId,
				Seq: x.LastSeq + 1, ShardFirst: uint64(i), ShardLeaves: 1,
			})
		}
	}
}

// commit commits the round that is planned.
func commit(v *swarmv1.ContractView) {
	p := v.Plan
	v.Plan, v.Committed = nil, &swarmv1.CommittedRound{Round: p.Round, Attempt: p.Attempt, Digest: fmt.Sprintf("%064x", v.Index+1), CommittedUnixMs: int64(v.Index)}
	for _, part := range p.Participants {
		v.Committed.Participants = append(v.Committed.Participants, part.Node)
		for _, x := range v.Sessions {
			if x.Id == part.Session {
				x.LastSeq, x.LastRound = part.Seq, p.Round
			}
		}
	}
}

// feeder gives a feed one view after the other.
type feeder struct {
	testing.TB
	feed delta.Feed
}

func (f *feeder) take(v *swarmv1.ContractView) *delta.Snapshot {
	f.Helper()
	v.Index++
	own := proto.CloneOf(v)
	s, err := f.feed.Take(own, own.Index, func() *swarmv1.ContractView { return own })
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func packed(t testing.TB, s *delta.Snapshot, have uint64) *swarmv1.ContractView {
	t.Helper()
	msg, err := s.Packed(have)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(msg) // as it travels
	if err != nil {
		t.Fatal(err)
	}
	out := &swarmv1.ContractView{}
	if err := proto.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// change does to a contract something that may happen.
func change(r *rand.Rand, v *swarmv1.ContractView, peers *int) {
	some := func(f func(x *swarmv1.Session)) {
		for range 1 + r.IntN(3) {
			if len(v.Sessions) > 0 {
				f(v.Sessions[r.IntN(len(v.Sessions))])
			}
		}
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		plan(v)
	case 3, 4, 5:
		if v.Plan != nil {
			commit(v)
		}
	case 6:
		*peers++
		v.Sessions = append(v.Sessions, session(*peers))
	case 7:
		some(func(x *swarmv1.Session) { x.State, x.EndReason = "ended", "lost" })
	case 8:
		some(func(gone *swarmv1.Session) {
			v.Sessions = slices.DeleteFunc(v.Sessions, func(x *swarmv1.Session) bool { return x == gone })
		})
	case 9:
		some(func(x *swarmv1.Session) {
			x.LastSeq, x.LastRound, x.SkippedSeq = r.Uint64(), r.Uint64()>>r.IntN(64), r.Uint64N(3)
		})
	case 10:
		r.Shuffle(len(v.Sessions), func(i, j int) { v.Sessions[i], v.Sessions[j] = v.Sessions[j], v.Sessions[i] })
	case 11:
		v.PendingReason, v.Plan = fmt.Sprint("no ", r.IntN(9)), nil
		if r.IntN(4) == 0 {
			v.Run, v.Committed, v.Rules = v.Run+1, nil, &swarmv1.Rules{Required: []string{"sl-1"}}
		}
	}
}

// TestRebuiltViewsAreTheWholeOnes: whatever happens to a contract, and however many views a watcher skips, it sees what is
// there.
func TestRebuiltViewsAreTheWholeOnes(t *testing.T) { rebuilt(t, 0, 6) }

// TestRebuiltViewsAreTheWholeOnesForMinutes is the same for more seeds.
func TestRebuiltViewsAreTheWholeOnesForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
	rebuilt(t, 6, 60)
}

func rebuilt(t *testing.T, first, last uint64) {
	t.Helper()
	for seed := first; seed < last; seed++ {
		r := rand.New(rand.NewPCG(seed, 14))
		f, peers := &feeder{TB: t}, 1+r.IntN(40)
		v := contract(peers)
		watchers := make([]struct {
			delta.Decoder
			have uint64
		}, 4)
		for step := range 300 {
			if step > 0 {
				change(r, v, &peers)
			}
			s := f.take(v)
			if d := proto.Equal(s.Plain(), v); !d {
				t.Fatalf("seed %d, step %d: plain view is %v, want %v", seed, step, s.Plain(), v)
			}
			for i := range watchers {
				if w := &watchers[i]; r.IntN(1+3*i) == 0 {
					got, err := w.View(packed(t, s, w.have))
					if err != nil || !proto.Equal(got, v) {
						t.Fatalf("seed %d, step %d, watcher %d at revision %d: got %v, %v, want %v", seed, step, i, w.have, got, err, v)
					}
					w.have = s.Revision()
				}
			}
		}
	}
}

// TestARoundOfManyPeersIsSmall: what a watcher gets in a round does not grow with the peers.
func TestARoundOfManyPeersIsSmall(t *testing.T) {
	sizes := map[int]int{}
	for _, peers := range []int{10, 100} {
		f, v := &feeder{TB: t}, contract(peers)
		plan(v)
		commit(v)
		for range 3 {
			plan(v)
			have := f.take(v).Revision()
			commit(v)
			a := f.take(v)
			plan(v)
			b := f.take(v)
			sizes[peers] = proto.Size(packed(t, a, have)) + proto.Size(packed(t, b, a.Revision()))
		}
	}
	if sizes[100] > 1000 || sizes[100] > sizes[10]+20 {
		t.Errorf("a round takes %d bytes for each watcher of 10 peers and %d of 100", sizes[10], sizes[100])
	}
}

func TestAnUnchangedViewIsNotSentAgain(t *testing.T) {
	f, v := &feeder{TB: t}, contract(3)
	a := f.take(v)
	b := f.take(v)
	if a.Revision() != b.Revision() {
		t.Fatalf("revisions %d and %d of one view", a.Revision(), b.Revision())
	}
	msg := packed(t, b, a.Revision())
	if len(msg.GetPacked().GetUpdates()) != 0 || msg.GetIndex() != v.Index {
		t.Errorf("to keep a watcher alive it was sent %v", msg)
	}
	var d delta.Decoder
	first, err := d.View(packed(t, a, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.View(msg); err != nil || !proto.Equal(got, v) || first.GetIndex() != v.Index-1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestLatecomersDoNotTurnTheFeedBack: a watcher that looked at the state before another one did takes what that one brought.
func TestLatecomersDoNotTurnTheFeedBack(t *testing.T) {
	var feed delta.Feed
	take := func(index uint64) *delta.Snapshot {
		v := contract(int(index))
		v.Index = index
		s, err := feed.Take(v, index, func() *swarmv1.ContractView { return v })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	take(3)
	if got := take(2).Plain(); got.GetIndex() != 3 || len(got.GetSessions()) != 3 {
		t.Errorf("got the view of index %d with %d sessions, want that of 3", got.GetIndex(), len(got.GetSessions()))
	}
}

// TestWhoIsFarBehindGetsTheWhole: of the differences only the last ones are kept.
func TestWhoIsFarBehindGetsTheWhole(t *testing.T) {
	f, v := &feeder{TB: t}, contract(100)
	first := f.take(v)
	var last *delta.Snapshot
	for i := range delta.KeptUpdates {
		v.PendingReason = fmt.Sprint(i)
		last = f.take(v)
	}
	msg := packed(t, last, first.Revision())
	if n := len(msg.GetPacked().GetUpdates()); n != delta.KeptUpdates || msg.GetPacked().GetInflated() != 0 {
		t.Errorf("%d updates, want %d", n, delta.KeptUpdates)
	}
	v.PendingReason = "one more"
	msg = packed(t, f.take(v), first.Revision())
	if n := len(msg.GetPacked().GetUpdates()); n != 1 || msg.GetPacked().GetInflated() == 0 {
		t.Errorf("%d updates, want the whole view, compressed", n)
	}
	var d delta.Decoder
	if got, err := d.View(msg); err != nil || !proto.Equal(got, v) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestMisfitsAreRefused: an update for another view, or one that was altered, gives no view at all.
func TestMisfitsAreRefused(t *testing.T) {
	f, v := &feeder{TB: t}, contract(40)
	views := []*delta.Snapshot{f.take(v)}
	for range 4 {
		plan(v)
		views = append(views, f.take(v))
		commit(v)
		views = append(views, f.take(v))
	}
	last := views[len(views)-1]
	whole, diff := packed(t, last, 0), packed(t, last, last.Revision()-1)
	alter := func(msg *swarmv1.ContractView, f func(*swarmv1.PackedView)) *swarmv1.ContractView {
		out := proto.CloneOf(msg)
		f(out.Packed)
		return out
	}
	inside := func(f func(*swarmv1.ViewUpdate)) *swarmv1.ContractView {
		return alter(diff, func(p *swarmv1.PackedView) {
			u := &swarmv1.ViewUpdate{}
			if err := proto.Unmarshal(p.Updates[0], u); err != nil {
				t.Fatal(err)
			}
			f(u)
			p.Updates[0], _ = proto.Marshal(u)
		})
	}
	for name, c := range map[string]struct {
		base *delta.Snapshot
		msg  *swarmv1.ContractView
	}{
		"nothing before it":   {nil, diff},
		"another base":        {views[2], diff},
		"newer base":          {last, diff},
		"another revision":    {views[len(views)-2], alter(diff, func(p *swarmv1.PackedView) { p.Revision++ })},
		"still stands":        {nil, alter(diff, func(p *swarmv1.PackedView) { p.Updates = nil })},
		"nothing at all":      {nil, &swarmv1.ContractView{Packed: &swarmv1.PackedView{}}},
		"shorter":             {nil, alter(whole, func(p *swarmv1.PackedView) { p.Inflated++ })},
		"longer":              {nil, alter(whole, func(p *swarmv1.PackedView) { p.Inflated-- })},
		"much longer":         {nil, alter(whole, func(p *swarmv1.PackedView) { p.Inflated = 1 << 31 })},
		"cut short":           {nil, alter(whole, func(p *swarmv1.PackedView) { p.Updates[0] = p.Updates[0][:100] })},
		"two compressed ones": {nil, alter(whole, func(p *swarmv1.PackedView) { p.Updates = append(p.Updates, p.Updates[0]) })},
		"plus":                {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.Sessions[0].Plus++ })},
		"set":                 {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { *u.Sessions[0].Set++ })},
		"one too few":         {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.Sessions[0].Count-- })},
		"one too many":        {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.Sessions[0].Count++ })},
		"beyond":              {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.Sessions[0].From = 1 << 31; u.Sessions[0].Count = 1 << 31 })},
		"no participants":     {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.Committed = nil })},
		"no head":             {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.View = nil })},
		"counts without put":  {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) { u.Sessions[0].Counts = []uint64{1, 2} })},
		"copied a million times": {views[len(views)-2], inside(func(u *swarmv1.ViewUpdate) {
			u.Sessions = slices.Repeat(u.Sessions, 25_000)
		})},
	} {
		var d delta.Decoder
		if c.base != nil {
			if _, err := d.View(packed(t, c.base, 0)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := d.View(c.msg)
		if !errors.Is(err, delta.ErrMisfit) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if _, err := d.View(diff); !errors.Is(err, delta.ErrMisfit) {
			t.Errorf("%s: the decoder went on from a view that it has refused: %v", name, err)
		}
		if got, err := d.View(whole); err != nil || !proto.Equal(got, v) {
			t.Errorf("%s: the whole view after it: %v, %v", name, got, err)
		}
	}
}

// TestCopiesHaveEveryField: what is copied by hand has the fields that are added one day.
func TestCopiesHaveEveryField(t *testing.T) {
	x, p := &swarmv1.Session{}, &swarmv1.Participant{}
	fill(t, x.ProtoReflect())
	fill(t, p.ProtoReflect())
	sessions := []delta.Item[*swarmv1.Session]{delta.NewItem(x, [2]uint64{x.LastSeq, x.LastRound})}
	delta.AdvanceSessions(sessions)
	if got := delta.Message(sessions[0]); got == x || !proto.Equal(got, x) {
		t.Errorf("got %v, want %v", got, x)
	}
	parts := []delta.Item[*swarmv1.Participant]{delta.NewItem(p, [2]uint64{p.Seq, 0})}
	delta.AdvanceParticipants(parts)
	if got := delta.Message(parts[0]); got == p || !proto.Equal(got, p) {
		t.Errorf("got %v, want %v", got, p)
	}
}

func fill(t *testing.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList():
			m.Mutable(f).List().AppendMutable()
		case f.Kind() == protoreflect.MessageKind:
			m.Set(f, m.NewField(f))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(3))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(4))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(5))
		case f.Kind() == protoreflect.DoubleKind:
			m.Set(f, protoreflect.ValueOfFloat64(0.5))
		default:
			t.Fatalf("field %s is of a kind that this test does not know", f.FullName())
		}
	}
}

// TestWatchersShareAFeed: they come and go at the same time, and who comes when all are gone begins anew.
func TestWatchersShareAFeed(t *testing.T) {
	var feeds delta.Feeds
	v := contract(5)
	v.Index = 1
	first, leave := feeds.Join("study")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			feed, leave := feeds.Join("study")
			defer leave()
			s, err := feed.Take(v, 1, func() *swarmv1.ContractView { return v })
			if feed != first || err != nil {
				t.Errorf("another feed, or %v", err)
				return
			}
			var d delta.Decoder
			if got, err := d.View(packed(t, s, 0)); err != nil || !proto.Equal(got, s.Plain()) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	all.Wait()
	leave()
	if again, leave := feeds.Join("study"); again == first {
		t.Error("a feed that nobody watches was kept")
	} else {
		leave()
	}
}

func FuzzDecoder(f *testing.F) {
	feed, v := &feeder{TB: f}, contract(5)
	base := packed(f, feed.take(v), 0)
	plan(v)
	f.Add(proto.CloneOf(packed(f, feed.take(v), 1)).Packed.Updates[0], uint32(0), uint64(2))
	f.Add(base.Packed.Updates[0], uint32(0), uint64(1))
	big := &feeder{TB: f}
	whole := packed(f, big.take(contract(60)), 0)
	f.Add(whole.Packed.Updates[0], whole.Packed.Inflated, uint64(1))
	f.Fuzz(func(t *testing.T, update []byte, inflated uint32, revision uint64) {
		var d delta.Decoder
		if _, err := d.View(base); err != nil {
			t.Fatal(err)
		}
		msg := &swarmv1.ContractView{Packed: &swarmv1.PackedView{Revision: revision, Updates: [][]byte{update}, Inflated: inflated}}
		v, err := d.View(msg)
		if err == nil {
			if _, err := proto.Marshal(v); err != nil {
				t.Errorf("a view came out that is none: %v", err)
			}
		} else if !errors.Is(err, delta.ErrMisfit) {
			t.Errorf("got %v", err)
		}
	})
}
