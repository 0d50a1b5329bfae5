package exchange_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/merge/exchange"
)

// lending is a slot whose bytes are used where they lie.
type lending struct{ *slot }

var _ exchange.Lender = lending{}

// Lend counts a write once the last byte of what was lent has changed.
func (s lending) Lend(off int64, n int, use func([]byte)) (bool, error) {
	s.mu.Lock()
	b := s.b[off : off+int64(n)]
	before := slices.Clone(b)
	if s.watch != nil && s.writes[off] == 0 {
		s.watch(len(s.writes))
	}
	s.mu.Unlock()
	use(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(before, b) && b[n-1] != before[n-1] {
		s.writes[off]++
	}
	return true, nil
}

// lend makes what Run is given lend its bytes.
func lend(slots *exchange.Slots) {
	if s, ok := slots.Local.(*slot); ok {
		slots.Local = lending{s}
	}
	if s, ok := slots.Merged.(*slot); ok {
		slots.Merged = lending{s}
	}
}

// cutOff is a slot in mapped memory of which one leaf can't be touched.
type cutOff struct {
	*slot
	at   int64
	wait time.Duration // before that leaf is touched
}

var errCutOff = errors.New("the file is too short")

func newCutOff(t *testing.T, like *slot, at int64, n int) *cutOff {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, len(like.b), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	copy(mem, like.b)
	if err := unix.Mprotect(mem[at:at+int64(n)], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return &cutOff{slot: &slot{b: mem, writes: map[int64]int{}}, at: at}
}

// Lend implements exchange.Lender.
func (c *cutOff) Lend(off int64, n int, use func([]byte)) (_ bool, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = errCutOff
		}
	}()
	if off == c.at && c.wait > 0 {
		time.Sleep(c.wait)
	}
	use(c.b[off : off+int64(n)])
	return true, nil
}

// copying is a stream that touches what it is given only in the caller's goroutine and when nobody waits for it, as TLS does.
type copying struct{ exchange.Stream }

func (c copying) Write(b []byte) (int, error) { return c.Stream.Write(bytes.Clone(b)) }

func (c copying) Read(b []byte) (int, error) {
	own := make([]byte, len(b))
	n, err := c.Stream.Read(own)
	return copy(b, own[:n]), err
}

// framing is a stream that writes frames as one.
type framing struct {
	exchange.Stream
	frames *int
}

// WriteFrame implements what exchange looks for.
func (f framing) WriteFrame(header, payload []byte) (int, error) {
	*f.frames++
	return f.Write(slices.Concat(header, payload))
}

// TestALeafThatIsGoneEndsTheAttempt has a program truncate its files: the node says what happened, and nobody takes what it
// had begun to send for weights.
func TestALeafThatIsGoneEndsTheAttempt(t *testing.T) {
	const victim, leaves = 1, 12
	l, local, merged := floats(t, leaves, 3)
	a := attempt(t, l, 1, 1, 1, 1)
	shards, want := a.Participants, direct(t, a, local)
	// Nobody but the victim needs a leaf that another owner has merged. Who has the victim's leaves by then, and has sent it all of
	// its own, has finished its part rightly; the others fail. As a rule they blame the victim, but these pipes have no buffer: a
	// reason that nobody reads in time is lost, and a stream just ends.
	const early, late = 0, time.Second
	for _, tt := range []struct {
		name, of string
		leaf     int // of the victim's slot
		wait     time.Duration
		say      string
	}{
		{"own weights, for another owner", "local", shards[2].Shard.First + 1, early, "read own weights: the file is too short"},
		{"own weights, for itself", "local", shards[victim].Shard.First + 1, early, "read own weights: the file is too short"},
		{"merged weights, of another owner", "merged", shards[0].Shard.First + 1, early, "write merged weights: the file is too short"},
		{"merged weights, of another owner, late", "merged", shards[0].Shard.First + 1, late, "write merged weights: the file is too short"},
		{"merged weights, of its own", "merged", shards[victim].Shard.First + 1, early, "write merged weights: the file is too short"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone := tt.of == "merged" && tt.leaf == shards[0].Shard.First+1
			for _, m := range merged {
				clear(m.b)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t, 3, exchange.Config{})
				s.dials = func(int, int) (exchange.Stream, exchange.Stream, error) {
					a, b := newPipe()
					return copying{a}, copying{b}, nil
				}
				s.extend = func(hub int, slots *exchange.Slots) {
					lend(slots)
					if hub != victim {
						return
					}
					of := map[string]*slot{"local": local[victim], "merged": merged[victim]}[tt.of]
					gone := newCutOff(t, of, l.LeafOffset(tt.leaf), l.LeafLen(tt.leaf))
					gone.wait = tt.wait
					if tt.of == "local" {
						slots.Local = gone
					} else {
						slots.Merged = gone
					}
				}
				for i, o := range s.runAll(t.Context(), a, local, merged) {
					finished := alone && i != victim && o.err == nil && bytes.Equal(merged[i].b, want)
					if tt.wait > 0 && i == 2 && !finished {
						t.Errorf("participant %d: got %v, want its part done", i, o.err)
					}
					if failed := alone && i != victim && blamed(o.err) >= -1; blamed(o.err) != victim && !finished && !failed {
						t.Errorf("participant %d: got %v, want blame of %d", i, o.err, victim)
					}
					if i == victim && (o.err == nil || !strings.Contains(o.err.Error(), tt.say) || !errors.Is(o.err, errCutOff)) {
						t.Errorf("the victim: got %v, want %q", o.err, tt.say)
					}
				}
			})
		})
	}
}

// TestLentLeavesGoOutWithTheirHeaders holds that what lends its bytes merges to the same as what does not, also over streams
// that write a header and a payload as one.
func TestLentLeavesGoOutWithTheirHeaders(t *testing.T) {
	const n = 3
	l, local, merged := floats(t, 9, n)
	a := attempt(t, l, 1, 1, 2, 3)
	want := direct(t, a, local)
	synctest.Test(t, func(t *testing.T) {
		s, frames := newSwarm(t, n, exchange.Config{}), make([]int, n*n)
		s.wrap = func(from, to int, stream exchange.Stream) exchange.Stream {
			return framing{stream, &frames[from*n+to]}
		}
		s.extend = func(_ int, slots *exchange.Slots) { lend(slots) }
		mustAll(t, s.runAll(t.Context(), a, local, merged))
		for i, m := range merged {
			if !bytes.Equal(m.b, want) {
				t.Errorf("participant %d holds other bytes than a direct merge", i)
			}
		}
		for i, p := range a.Participants {
			for from := range n {
				if got := frames[from*n+i]; from != i && got != p.Shard.Leaves {
					t.Errorf("%d frames from %d to %d were written as one, want %d", got, from, i, p.Shard.Leaves)
				}
			}
		}
	})
}

// shortOnce lends one leaf half of zeros, once, as behind the new end of a file within its last page, and says so after use.
type shortOnce struct {
	lending
	at   int64
	left *int
}

// Lend implements exchange.Lender.
func (s shortOnce) Lend(off int64, n int, use func([]byte)) (bool, error) {
	if off != s.at || *s.left == 0 {
		return s.lending.Lend(off, n, use)
	}
	*s.left--
	short := bytes.Clone(s.b[off : off+int64(n)])
	clear(short[n/2:])
	use(short)
	return true, errCutOff
}

// TestALeafMergedOfAShortFileIsNotHeld: another attempt merges it anew, with the same bounds and distances as if nothing had
// been.
func TestALeafMergedOfAShortFileIsNotHeld(t *testing.T) {
	const n, victim = 5, 0
	for _, text := range []string{"mean", "normclip", "krum(f=1)", "geomedian"} {
		l, _, _ := floats(t, 9, n)
		synctest.Test(t, func(t *testing.T) {
			tr := newTraining(t, canonical(t, text), l, n, true, rand.New(rand.NewPCG(7, 7)))
			a := tr.plan(attempt(t, l, 1, 1, 2, 1, 3, 1))
			left, at := 1, l.LeafOffset(a.Participants[victim].Shard.First)
			s := tr.join(newSwarm(t, n, exchange.Config{}))
			give := s.extend
			s.extend = func(hub int, slots *exchange.Slots) {
				give(hub, slots)
				lend(slots)
				if own, ok := slots.Local.(lending); ok && hub == victim {
					slots.Local = shortOnce{own, at, &left}
				}
			}
			first := s.runAll(t.Context(), a, tr.local, tr.merged)
			if whole := tr.method.Distances(); whole != (left == 1) || whole != (first[victim].err == nil) {
				t.Fatalf("%s: the short leaf was lent: %t; %v", text, left == 0, first[victim].err)
			}
			if left == 1 {
				tr.verify(a, first) // Its bytes are copied, and were whole.
				return
			}
			a.Number = 2
			tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
		})
	}
}

// restless is a slot in which a program puts a number for what is none once somebody has looked.
type restless struct {
	lending
	at    int64
	looks *int
}

// Lend implements exchange.Lender.
func (s restless) Lend(off int64, n int, use func([]byte)) (bool, error) {
	if off != s.at {
		return s.lending.Lend(off, n, use)
	}
	*s.looks++
	bad := bytes.Clone(s.b[off : off+int64(n)])
	copy(bad, []byte{0, 0, 0xc0, 0x7f}) // NaN
	use(bad)
	return true, nil
}

// TestWhoIsBlamedForNaNIsLookedAtInACopy has a program whose NaN is gone when the owner looks again: nobody is blamed.
func TestWhoIsBlamedForNaNIsLookedAtInACopy(t *testing.T) {
	const n = 3
	l, local, merged := floats(t, 9, n)
	a := attempt(t, l, 1, 1, 2, 3)
	want := direct(t, a, local)
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, n, exchange.Config{})
		looks := 0
		s.extend = func(hub int, slots *exchange.Slots) {
			lend(slots)
			if hub == 0 {
				slots.Local = restless{slots.Local.(lending), l.LeafOffset(a.Participants[0].Shard.First), &looks}
			}
		}
		mustAll(t, s.runAll(t.Context(), a, local, merged))
		if looks != 1 {
			t.Errorf("the leaf was lent %d times", looks)
		}
		for i, m := range merged {
			if !bytes.Equal(m.b, want) {
				t.Errorf("participant %d holds other bytes than a direct merge", i)
			}
		}
	})
}
