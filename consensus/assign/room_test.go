package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// some are needs of few different kinds, so that rooms are often just full.
func some(r *rand.Rand) want {
	w := want{needs: ledger.Needs{MilliCPU: r.Uint32N(3) * 500, Memory: r.Uint64N(3) << 30, GPUs: r.Uint32N(3), Disk: r.Uint64N(3) << 30}}
	if r.IntN(4) == 0 {
		w.ports = []uint32{9000 + r.Uint32N(2)}
	}
	return w
}

// fits is how many members with the same needs a room takes.
func fits(r room, w want) (count int) {
	for ; r.takes(w); count++ {
		r.give(w, "7")
	}
	return count
}

// TestFill: no host gives more than it offers or has more members than it may, whoever else is there; members that need the same are placed if they can
// be; and those that are to be together are.
func TestFill(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 19))
		rooms := make([]room, 1+r.IntN(5))
		for i := range rooms {
			rooms[i] = roomOf("h", &task.Offer{CPUs: r.Uint32N(5), MemoryBytes: r.Uint64N(6) << 30, GPUs: r.Uint32N(5), DiskBytes: r.Uint64N(6) << 30})
			for range r.IntN(3) { // others are there, perhaps by an offer that was larger
				rooms[i].give(some(r), "6")
			}
			if r.IntN(4) == 0 {
				rooms[i].members = r.IntN(3)
			}
		}
		needs := slices.Repeat([]want{some(r)}, 1+r.IntN(6))
		uniform, together := r.IntN(2) == 0, r.IntN(4) == 0
		for i := range needs {
			if !uniform {
				needs[i] = some(r)
			}
		}
		before := fmt.Sprint(rooms)
		at, ok := fillRooms(rooms, needs, together)
		if fmt.Sprint(rooms) != before {
			t.Fatalf("seed %d: it changed the rooms", seed)
		}
		if again, _ := fillRooms(rooms, needs, together); !slices.Equal(at, again) {
			t.Fatalf("seed %d: another leader finds others: %v and %v", seed, at, again)
		}
		if uniform {
			most, all := 0, 0
			for _, x := range rooms {
				most, all = max(most, fits(x, needs[0])), all+fits(x, needs[0])
			}
			if can := map[bool]int{true: most, false: all}[together]; ok != (can >= len(needs)) {
				t.Fatalf("seed %d: %d members can be placed, of %d: %v", seed, can, len(needs), ok)
			}
		}
		if !ok {
			continue
		}
		if len(at) != len(needs) || together && len(slices.Compact(slices.Clone(at))) > 1 {
			t.Fatalf("seed %d: placed on %v", seed, at)
		}
		for i, k := range at {
			if !rooms[k].takes(needs[i]) {
				t.Fatalf("seed %d: room %d has %+v for %d members, and member %d was put there", seed, k, rooms[k].left, rooms[k].members, i)
			}
			rooms[k].give(needs[i], "7")
		}
	}
}

// TestFillTakesTurns, and puts the largest members first where that alone is an end.
func TestFillTakesTurns(t *testing.T) {
	gpus := func(of ...uint32) (rooms []room) {
		for _, n := range of {
			rooms = append(rooms, roomOf("h", &task.Offer{CPUs: 8, GPUs: n}))
		}
		return rooms
	}
	needs := func(of ...uint32) (all []want) {
		for _, n := range of {
			all = append(all, want{needs: ledger.Needs{GPUs: n}})
		}
		return all
	}
	for _, tt := range []struct {
		rooms []room
		needs []want
		want  []int
	}{
		{gpus(4, 4, 4), needs(1, 1, 1, 1), []int{0, 1, 2, 0}},
		{gpus(1, 4, 0), needs(1, 1, 1, 1), []int{0, 1, 1, 1}},
		{gpus(4, 2), needs(2, 4), []int{1, 0}},
		{gpus(4, 2), needs(0, 0, 0), []int{0, 1, 0}},
		{gpus(1, 1), needs(2), nil},
		{nil, needs(0), nil},
	} {
		if at, ok := fillRooms(tt.rooms, tt.needs, false); !slices.Equal(at, tt.want) || ok != (tt.want != nil) {
			t.Errorf("%d rooms, %v: %v, %v; want %v", len(tt.rooms), tt.needs, at, ok, tt.want)
		}
	}
}

// TestLacks: who waits is told what a host has, and whether it could ever be enough.
func TestLacks(t *testing.T) {
	r := roomOf("h", &task.Offer{CPUs: 4, MemoryBytes: 8e9, GPUs: 2, DiskBytes: 50e9})
	r.give(want{ledger.Needs{MilliCPU: 1500, Memory: 6e9, GPUs: 1, Disk: 20e9}, []uint32{29400}}, "6")
	full := r
	full.members = 0
	for _, tt := range []struct {
		room  room
		needs ledger.Needs
		want  string
	}{
		{r, ledger.Needs{GPUs: 3}, "offers 2 GPUs"},
		{r, ledger.Needs{GPUs: 2}, "has 1 GPU left of 2 GPUs"},
		{r, ledger.Needs{MilliCPU: 2600}, "has 2.5 CPUs left of 4 CPUs"},
		{r, ledger.Needs{MilliCPU: 1000, Memory: 3e9}, "has 2 GB of memory left of 8 GB of memory"},
		{r, ledger.Needs{Disk: 40e9}, "has 30 GB of disk left of 50 GB of disk"},
		{roomOf("h", &task.Offer{CPUs: 4}), ledger.Needs{Disk: 1}, "offers no disk"}, // as hosts of before
		{roomOf("h", nil), ledger.Needs{GPUs: 1}, "offers no GPU"},
		{r, ledger.Needs{MilliCPU: 1000}, "has room for 2"},
		{full, ledger.Needs{MilliCPU: 1000}, "has 64 members already"},
	} {
		if got := tt.room.lacks(want{needs: tt.needs}); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.needs, got, tt.want)
		}
	}
	if got := r.lacks(want{ports: []uint32{80, 29400}}); got != "has a member of assignment 6 that listens to port 29400" {
		t.Error(got)
	}
	if got := r.lacks(want{ports: []uint32{80}}); got != "has room for 1" { // a second one would listen to it too
		t.Error(got)
	}
}

// TestGivenCostsLittle: the leader finds what hosts give at each look, so it makes nothing as large as a group for each member of it.
func TestGivenCostsLittle(t *testing.T) {
	g := task.Group{Name: "peers", Peers: task.MaxMembers, Needs: ledger.Needs{MilliCPU: 100}, Ports: []uint32{9000}, FirstPorts: []uint32{9001}}
	a := &task.Assignment{Request: task.Request{ID: "7", Groups: []task.Group{g}}, Shares: true, Phase: task.Running}
	for i := range task.MaxMembers {
		a.Members = append(a.Members, task.Member{Node: fmt.Sprint("h-", i/task.MaxHosted), Group: g.Name, Peers: 1})
	}
	b := &task.Board{Assignments: map[string]*task.Assignment{a.ID: a}}
	if n := testing.AllocsPerRun(5, func() { givenBy(b) }); n > task.MaxMembers/2 {
		t.Errorf("%v allocations for %d members on %d hosts", n, task.MaxMembers, task.MaxMembers/task.MaxHosted)
	}
	by := givenBy(b)
	if first, other := by["h-0"][0], by["h-0"][1]; len(first.ports) != 2 || len(other.ports) != 1 || !first.modest || first.needs != g.Needs {
		t.Errorf("the first is given %+v, the second %+v", first, other)
	}
}
