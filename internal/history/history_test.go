package history_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
	"github.com/swarmd/swarmd/internal/round"
)

func open(t *testing.T, dir string, limits history.Limits) (*history.Store, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	s, err := history.Open(dir, limits, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, &said
}

func put(t *testing.T, s *history.Store, contract string, run uint64, rounds ...uint64) {
	t.Helper()
	for _, n := range rounds {
		loss := float64(n)
		if err := s.Put(contract, run, &history.Round{Round: n, Digest: fmt.Sprint("d", n), Peers: []history.Peer{{Node: "sl-0", Loss: &loss}}}); err != nil {
			t.Fatal(err)
		}
	}
}

func rounds(t *testing.T, s *history.Store, contract string, q history.Query) (found []uint64, part history.Part) {
	t.Helper()
	part, err := s.Read(contract, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range part.Rounds {
		found = append(found, r.Round)
	}
	return found, part
}

func get(t *testing.T, s *history.Store, contract string, run, round uint64) *history.Round {
	t.Helper()
	r, err := s.Get(contract, run, round)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func upTo(n uint64) (all []uint64) {
	for i := uint64(1); i <= n; i++ {
		all = append(all, i)
	}
	return all
}

// TestStoreSurvivesRestart, and what a crash has cut short of its end is cut off, and what is no line left out, and said; all else stays.
func TestStoreSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, history.Limits{})
	put(t, s, "a.b", 3, 1, 2, 3, 2)
	s.Close()
	path := filepath.Join(dir, "a.b.3.history")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tail := range []string{"", "1234", "00000000 {}\n", string(whole[:20]), strings.Repeat("x", 300<<10)} {
		if err := os.WriteFile(path, append(bytes.Clone(whole), tail...), 0o600); err != nil {
			t.Fatal(err)
		}
		s, said := open(t, dir, history.Limits{})
		if got, part := rounds(t, s, "a.b", history.Query{}); !cmp.Equal(got, []uint64{1, 2, 3}) || part.Run != 3 || part.Thinned != 0 {
			t.Errorf("behind %.20q: %v %+v", tail, got, part)
		}
		if damaged := strings.Contains(said.String(), "a contract's history was damaged"); damaged != (tail != "") {
			t.Errorf("behind %.20q: said %s", tail, said)
		}
		put(t, s, "a.b", 3, 4)
		s.Close()
		s, said = open(t, dir, history.Limits{})
		if got, _ := rounds(t, s, "a.b", history.Query{}); !cmp.Equal(got, []uint64{1, 2, 3, 4}) || said.Len() > 0 {
			t.Errorf("after that: %v, %s", got, said)
		}
		s.Close()
	}
}

// TestADamagedLineCostsOneRound: those behind it stay, and the line is gone when the file was written anew.
func TestADamagedLineCostsOneRound(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, history.Limits{})
	put(t, s, "a", 3, upTo(50)...)
	s.Close()
	path := filepath.Join(dir, "a.3.history")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(lines [][]byte){
		"a bit":  func(lines [][]byte) { lines[4][30] ^= 1 },
		"a hole": func(lines [][]byte) { lines[4] = append(make([]byte, 600<<10), '\n') },
	} {
		lines := bytes.SplitAfter(bytes.Clone(whole), []byte("\n"))
		damage(lines)
		if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		s, said := open(t, dir, history.Limits{})
		if got, _ := rounds(t, s, "a", history.Query{}); len(got) != 49 || got[4] != 6 || !strings.Contains(said.String(), "lines_left_out=1") {
			t.Errorf("%s: %v, said %s", name, got, said)
		}
		if run, round := s.Whole("a"); run != 3 || round != 4 {
			t.Errorf("%s: whole up to round %d of run %d", name, round, run)
		}
		put(t, s, "a", 3, 51)
		s.Close()
		s, said = open(t, dir, history.Limits{})
		if got, _ := rounds(t, s, "a", history.Query{}); len(got) != 50 || said.Len() > 0 {
			t.Errorf("%s, after that: %v, said %s", name, got, said)
		}
		s.Close()
	}
	s, said := open(t, dir, history.Limits{}) // and one that is damaged while the file is open
	if err := os.WriteFile(path, bytes.ReplaceAll(must(os.ReadFile(path))(t), []byte(`"d9"`), []byte(`"d8"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := rounds(t, s, "a", history.Query{Most: 20}); len(got) != 19 || slices.Contains(got, 9) || !strings.Contains(said.String(), "a round's record was damaged") {
		t.Errorf("%v, said %s", got, said)
	}
	put(t, s, "a", 3, 52)
	if got, _ := rounds(t, s, "a", history.Query{}); len(got) != 50 {
		t.Errorf("after that: %v", got)
	}
}

// TestAFullDiskTakesNothingAway: where a file can't be written anew all rounds stay that it has, and nothing is written beyond the limit.
func TestAFullDiskTakesNothingAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	s, _ := open(t, dir, history.Limits{Contract: 20 << 10})
	put(t, s, "a", 1, upTo(100)...)
	if err := os.Rename(dir, dir+"-gone"); err != nil { // a new file can't be made
		t.Fatal(err)
	}
	failed := 0
	for n := uint64(101); n <= 1000; n++ {
		if err := s.Put("a", 1, &history.Round{Round: n}); err != nil {
			failed++
		}
	}
	got, _ := rounds(t, s, "a", history.Query{})
	if len(got) != 1000-failed || failed == 0 || got[99] != 100 {
		t.Errorf("%d rounds are left, %d were refused", len(got), failed)
	}
	if info, err := os.Stat(filepath.Join(dir+"-gone", "a.1.history")); err != nil || info.Size() > 20<<10 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if err := os.Rename(dir+"-gone", dir); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", 1, 1001)
	if got, _ := rounds(t, s, "a", history.Query{}); got[len(got)-1] != 1001 {
		t.Errorf("with room again: %v", got)
	}
}

// TestOpenSweeps: what a crash has left of a file that was being written is removed.
func TestOpenSweeps(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, ".new-XYZ")
	if err := os.WriteFile(part, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, history.Limits{})
	if _, err := os.Stat(part); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", part, err)
	}
}

// TestOneRoundCostsOneRound, however many there are.
func TestOneRoundCostsOneRound(t *testing.T) {
	s, _ := open(t, t.TempDir(), history.Limits{})
	put(t, s, "few", 1, 5)
	put(t, s, "many", 1, upTo(5000)...)
	cost := func(contract string) float64 {
		return testing.AllocsPerRun(20, func() {
			if get(t, s, contract, 1, 5) == nil {
				t.Fatal("round 5 is missing")
			}
		})
	}
	if few, many := cost("few"), cost("many"); many > few+1 {
		t.Errorf("a round of many takes %.0f allocations, one of few %.0f", many, few)
	}
}

// TestReadersOutliveFiles: who reads while a file is written anew, begun again or removed reads on.
func TestReadersOutliveFiles(t *testing.T) {
	s, _ := open(t, t.TempDir(), history.Limits{Contract: 8 << 10})
	put(t, s, "a", 1, 1)
	var reading sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		reading.Go(func() {
			for !done.Load() {
				if _, err := s.Read("a", history.Query{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for run := uint64(1); run < 4; run++ {
		put(t, s, "a", run, upTo(300)...)
	}
	s.Remove("a")
	done.Store(true)
	reading.Wait()
}

// TestRunsAndContracts: a reset contract begins anew, the run before it is kept and what is late of it dropped, a deleted one is gone.
func TestRunsAndContracts(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir, history.Limits{})
	put(t, s, "a", 1, 1, 2, 3)
	put(t, s, "b", 1, 1)
	put(t, s, "a", 2, 1)
	put(t, s, "a", 1, 4)
	runs := func(want ...uint64) {
		t.Helper()
		last := want[len(want)-1]
		if got, part := rounds(t, s, "a", history.Query{}); !cmp.Equal(got, []uint64{1}) || part.Run != last || !cmp.Equal(s.Runs("a"), want) {
			t.Errorf("after a reset: %v of run %d, kept are %v", got, part.Run, s.Runs("a"))
		}
		if run, whole := s.Whole("a"); run != last || whole != 1 {
			t.Errorf("whole up to round %d of run %d", whole, run)
		}
	}
	runs(1, 2)
	if got, part := rounds(t, s, "a", history.Query{Run: 1, After: 1}); !cmp.Equal(got, []uint64{2, 3}) || part.Run != 1 || part.Last != 3 {
		t.Errorf("of the run before: %v %+v", got, part)
	}
	for _, run := range []uint64{3, 9} {
		if got, part := rounds(t, s, "a", history.Query{Run: run}); got != nil || part.Run != 0 {
			t.Errorf("of a run that there is not: %v %+v", got, part)
		}
	}
	for range 2 { // and by a store that is opened anew
		put(t, s, "a", 4, 1)
		put(t, s, "a", 2, 7)
		runs(2, 4)
		s.Close()
		if err := os.WriteFile(filepath.Join(dir, "a.1.history"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ = open(t, dir, history.Limits{})
		runs(2, 4)
	}
	s.Remove("b")
	s.Remove("none")
	if got, part := rounds(t, s, "b", history.Query{}); got != nil || part.Run != 0 {
		t.Errorf("of a deleted contract: %v", got)
	}
	left := func() (names []string) {
		for _, f := range must(os.ReadDir(dir))(t) {
			names = append(names, f.Name())
		}
		return names
	}
	if got := left(); !cmp.Equal(got, []string{"a.2.history", "a.4.history"}) {
		t.Errorf("left are %v", got)
	}
	s.Remove("a")
	if got := left(); got != nil || len(s.Contracts()) != 0 {
		t.Errorf("left are %v", got)
	}
}

// TestEarlierRunsGiveRoom: of the run before a quarter of the limit is kept at most, within the contract's, and it goes before rounds of one that
// goes on.
func TestEarlierRunsGiveRoom(t *testing.T) {
	dir := t.TempDir()
	limits := history.Limits{Contract: 20 << 10, All: 50 << 10}
	s, _ := open(t, dir, limits)
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(dir, name+".history"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for run := uint64(1); run <= 3; run++ {
		put(t, s, "a", run, upTo(500)...)
		if over, now := size(fmt.Sprint("a.", run-1)), size(fmt.Sprint("a.", run)); over > limits.Contract/4 || (over == 0) != (run == 1) || over+now > limits.Contract {
			t.Errorf("in run %d that before has %d bytes, this one %d", run, over, now)
		}
	}
	if got, _ := rounds(t, s, "a", history.Query{Run: 2}); len(got) < 10 || got[len(got)-1] != 500 {
		t.Errorf("of run 2 are left %v", got)
	}
	for _, name := range []string{"b", "c", "d"} {
		put(t, s, name, 1, upTo(1000)...)
	}
	if got := s.Runs("a"); !cmp.Equal(got, []uint64{3}) {
		t.Errorf("kept are runs %v", got)
	}
}

func TestRead(t *testing.T) {
	s, _ := open(t, t.TempDir(), history.Limits{})
	put(t, s, "a", 1, upTo(100)...)
	for _, test := range []struct {
		q       history.Query
		want    []uint64
		thinned uint64
	}{
		{history.Query{Most: 3}, []uint64{1, 2, 3}, 97},
		{history.Query{After: 97}, []uint64{98, 99, 100}, 0},
		{history.Query{Most: 4, Spread: true}, []uint64{49, 98, 99, 100}, 96},
		{history.Query{Most: 1, Spread: true}, []uint64{100}, 99},
		{history.Query{After: 98, Most: 4, Spread: true}, []uint64{99, 100}, 0},
		{history.Query{After: 100}, nil, 0},
		{history.Query{After: 1 << 63}, nil, 0},
	} {
		if got, part := rounds(t, s, "a", test.q); !cmp.Equal(got, test.want) || part.Thinned != test.thinned {
			t.Errorf("%+v: %v, %d thinned", test.q, got, part.Thinned)
		}
	}
}

// TestSpread: of a long training the newest hundred rounds are told whole, and of the others as many as there is room for, evenly.
func TestSpread(t *testing.T) {
	s, _ := open(t, t.TempDir(), history.Limits{})
	put(t, s, "a", 1, upTo(2000)...)
	got, part := rounds(t, s, "a", history.Query{Most: 500, Spread: true})
	if len(got) != 500 || part.Thinned != 1500 {
		t.Fatalf("%d rounds, %d thinned", len(got), part.Thinned)
	}
	for i := 1; i < len(got); i++ {
		if step := got[i] - got[i-1]; got[i] > 1901 && step != 1 || step > 5 {
			t.Errorf("round %d follows %d", got[i], got[i-1])
		}
	}
}

// TestLimits: older rounds are thinned, the newer half stays whole, and the files stay within both limits.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	limits := history.Limits{Contract: 20 << 10, All: 50 << 10}
	s, _ := open(t, dir, limits)
	for _, name := range []string{"a", "b", "c", "d"} {
		put(t, s, name, 1, upTo(1000)...)
	}
	all := int64(0)
	for _, name := range []string{"a", "b", "c", "d"} {
		info, err := os.Stat(filepath.Join(dir, name+".1.history"))
		if err != nil {
			t.Fatal(err)
		}
		if all += info.Size(); info.Size() > limits.Contract+1024 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	if all > limits.All {
		t.Errorf("all have %d bytes", all)
	}
	got, part := rounds(t, s, "d", history.Query{})
	if n := len(got); n < 10 || got[n-1] != 1000 || got[n-2] != 999 || got[0] > 100 || part.Thinned != 1000-uint64(n) {
		t.Errorf("left are %v, %d thinned", got, part.Thinned)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte("3f3f3f3f {\"round\":1,\"attempt\":1}\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.1.history"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ := open(t, dir, history.Limits{})
		before, _ := rounds(t, s, "a", history.Query{})
		put(t, s, "a", 1, 7)
		after, _ := rounds(t, s, "a", history.Query{})
		if len(after) < len(before) || len(after) > len(before)+1 {
			t.Errorf("%v, then %v", before, after)
		}
	})
}

// sn is an SN's copy of the state in a test.
type sn struct {
	mu      sync.Mutex
	view    *state.State
	changed chan struct{}
	ledger  [][]byte
	led     bool
	leads   bool
	hold    chan struct{} // who reads the ledger waits for it
}

// sources are other SNs, by name; the one that leads has none.
type sources map[string]func(contract string, q history.Query) (history.Part, bool, error)

func (s sources) Others() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(name string) bool { return name == "" })
}

func (s sources) Ask(_ context.Context, sn, contract string, q history.Query) (part history.Part, ok bool, err error) {
	if s[sn] == nil {
		return part, false, nil
	}
	return s[sn](contract, q)
}

func (s *sn) IsLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads
}

func (s *sn) LeaderSeen() (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.led {
		at = time.Now()
	}
	return at
}

// LedgerAfter returns one record at a time.
func (s *sn) LedgerAfter(n uint64) ([]byte, error) {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= uint64(len(s.ledger)) {
		return nil, nil
	}
	return s.ledger[n], nil
}

func newSN() *sn {
	return &sn{view: &state.State{SwarmID: "s"}, changed: make(chan struct{})}
}

func (s *sn) View() *state.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

func (s *sn) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// show shows another contract "c", none for nil.
func (s *sn) show(c *state.Contract) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = &state.State{SwarmID: "s", Contracts: map[string]*state.Contract{}}
	if c != nil {
		s.view.Contracts["c"] = c
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// records are lines of a ledger.
func records(t *testing.T, bodies ...ledger.Body) (lines [][]byte) {
	t.Helper()
	var head ledger.Head
	for _, b := range bodies {
		line, next, err := ledger.Append(head, 77, b)
		if err != nil {
			t.Fatal(err)
		}
		lines, head = append(lines, line), next
	}
	return lines
}

func ms(d time.Duration) *uint64 {
	n := uint64(d / time.Millisecond)
	return &n
}

// TestRecorder: a leader writes what it sees and hears of a round, another SN takes it over, and goes on by itself as the leader is gone.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newSN(), newSN()
		store1, _ := open(t, t.TempDir(), history.Limits{})
		store2, _ := open(t, t.TempDir(), history.Limits{})
		log := slog.New(slog.DiscardHandler)
		first.leads = true
		leads := history.NewRecorder(store1, first, sources{}, log)
		var gone atomic.Bool // the recorder's own goroutine asks
		follows := history.NewRecorder(store2, second, sources{"": func(contract string, q history.Query) (history.Part, bool, error) {
			if gone.Load() {
				return history.Part{}, false, nil
			}
			part, err := store1.Read(contract, q)
			return part, true, err
		}}, log)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = leads.Run(ctx) })
		running.Go(func() { _ = follows.Run(ctx) })
		defer running.Wait()
		defer stop()
		both := func(c *state.Contract) {
			first.show(c)
			second.show(c)
			synctest.Wait()
		}
		c := &state.Contract{Name: "c", Run: 2}
		both(c)
		say := func(to *history.Recorder, r reports.Report) {
			r.Contract, r.Run, r.Session, r.Node = "c", 2, "s0", "sl-0"
			to.Observe(r)
		}
		merge := func(to *history.Recorder, n uint64) {
			say(to, reports.Report{Ready: &round.Ready{BaseRound: n - 1}, Progress: &round.Progress{SentBytes: 100 * (n - 1), ReceivedBytes: 10 * (n - 1)}})
			time.Sleep(2 * time.Second)
			planned := time.Now().UnixMilli()
			planning := *c
			planning.Plan = &state.Plan{Run: 2, Round: n, Attempt: 2, PlannedMS: planned, Participants: []state.Participant{{Node: "sl-1", Weight: 7}, {Node: "sl-0"}}}
			both(&planning)
			say(to, reports.Report{Failed: &round.Failed{Round: n, Attempt: 1, Blamed: "sl-1", Reason: "it\nhangs"}})
			time.Sleep(3 * time.Second)
			say(to, reports.Report{Done: &round.Done{Round: n, Attempt: 2}})
			time.Sleep(time.Second)
			committed := *c
			committed.Committed = &state.CommittedRound{Round: n, Attempt: 2, Digest: "d", Participants: []string{"sl-1", "sl-0"}, PlannedMS: planned, CommittedMS: time.Now().UnixMilli()}
			c = &committed
			both(c)
			say(to, reports.Report{Progress: &round.Progress{Round: n, Loss: 0.5, HasLoss: true, Metric: 0.25, HasMetric: true, MetricName: "f1", SentBytes: 100 * n, ReceivedBytes: 10 * n}})
			time.Sleep(5 * time.Second)
		}
		merge(leads, 1)
		merge(leads, 2)
		loss, metric, seven, none, sent, received := 0.5, 0.25, uint32(7), uint32(0), uint64(100), uint64(10)
		for name, s := range map[string]*history.Store{"the leader": store1, "the other": store2} {
			got := get(t, s, "c", 2, 2)
			if got == nil || len(got.Failed) != 1 || got.CommittedMS == 0 || got.Failed[0].AtMS == 0 {
				t.Fatalf("%s has %+v", name, got)
			}
			got.Asked, got.CommittedMS, got.PlannedMS, got.Failed[0].AtMS = 0, 0, 0, 0
			want := &history.Round{
				Round: 2, Attempt: 2, Digest: "d", Own: true, Waiting: ms(2 * time.Second), Training: ms(5 * time.Second), Exchange: ms(3 * time.Second), Commit: ms(time.Second),
				Failed: []history.Failed{{Attempt: 1, Blamed: "sl-1", Reason: got.Failed[0].Reason}},
				Peers:  []history.Peer{{Node: "sl-0", Loss: &loss, Metric: &metric, MetricName: "f1", Weight: &none, Sent: &sent, Received: &received}, {Node: "sl-1", Weight: &seven, Contributed: true}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		gone.Store(true)
		merge(follows, 3)
		if got, part := rounds(t, store2, "c", history.Query{}); !cmp.Equal(got, []uint64{1, 2, 3}) || part.Rounds[2].Peers[0].Loss == nil {
			t.Errorf("after the leader is gone: %v %+v", got, part)
		}
		second.ledger = records(t, ledger.Over{}, ledger.Round{Contract: "c", Run: 2, Round: 4, Attempt: 1, Model: "dd", Method: "median", Participants: []ledger.Participant{{Node: "sl-1", Weight: 3}}}, ledger.Round{Contract: "c", Run: 2, Round: 5})
		caught := *c
		caught.Committed = &state.CommittedRound{Round: 5, Attempt: 1, Participants: []string{"sl-0"}}
		both(&caught)
		time.Sleep(time.Second)
		if got := get(t, store2, "c", 2, 4); got == nil || got.Digest != "dd" || got.Method != "median" || *got.Peers[0].Weight != 3 || got.CommittedMS != 77 {
			t.Errorf("a round that was committed between two looks: %+v", got)
		}
		both(nil)
		if left := store2.Contracts(); len(left) != 0 {
			t.Errorf("of a deleted contract is left %v", left)
		}
	})
}

// TestHistoriesWaitForALeader: an SN that hears of no leader shows the contracts of its snapshot, which tells of none that was deleted.
func TestHistoriesWaitForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		put(t, store, "c", 1, 1, 2)
		alone := newSN()
		r := history.NewRecorder(store, alone, sources{}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		time.Sleep(time.Hour)
		if got := store.Contracts(); len(got) != 1 {
			t.Errorf("without a leader there is left %v", got)
		}
		alone.mu.Lock()
		alone.led = true
		alone.mu.Unlock()
		time.Sleep(3 * time.Minute)
		stop()
		running.Wait()
		if got := store.Contracts(); len(got) != 0 {
			t.Errorf("of a contract that was deleted there is left %v", got)
		}
	})
}
