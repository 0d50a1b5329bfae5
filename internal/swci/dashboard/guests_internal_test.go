package dashboard

import (
	"context"
	"net"
	"testing"
)

// TestWhoGoesFirst: of too many connections the oldest one goes by which least is proven, and a new one only where all others are of pages.
func TestWhoGoesFirst(t *testing.T) {
	g := &guests{max: 4}
	var all []*guest
	come := func() (out *guest) {
		a, b := net.Pipe()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		all = append(all, &guest{Conn: a, of: g})
		return g.add(all[len(all)-1])
	}
	show := func(i int, what proof) { proves(withGuest(context.Background(), all[i]), what) }
	for range 4 {
		come()
	}
	show(0, cookie)
	show(1, secret)
	show(1, cookie) // it is no less a page for that
	for i, want := range []int{2, 3, 4, 5} {
		if out := come(); out != all[want] {
			t.Fatalf("newcomer %d does not put out connection %d", i, want)
		}
	}
	show(6, secret)
	show(7, secret)
	if out := come(); out != all[0] {
		t.Error("a connection of a cookie stays, and no stranger is there")
	}
	show(8, secret)
	if out := come(); out != all[9] {
		t.Error("a stranger puts out a page")
	}
	if err := all[1].Close(); err != nil {
		t.Fatal(err)
	}
	if out := come(); out != nil {
		t.Error("there is room again")
	}
}
