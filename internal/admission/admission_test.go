package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/round"
)

func TestCheckIdentity(t *testing.T) {
	const shared, own = "spiffe://a.example/swarm/sl", "spiffe://a.example/swarm/sl/sl-0"
	tests := []struct {
		name, registered, proven string
		good, stale              bool
	}{
		{"the same", own, own, true, false},
		{"shared by all", shared, shared, true, false},
		{"one of its own, not registered yet", shared, own, true, false},
		{"a connection from before it had its own", own, shared, false, true},
		{"another node's", own, "spiffe://a.example/swarm/sl/sl-1", false, false},
		{"another node's over a shared one", shared, "spiffe://a.example/swarm/sl/sl-1", false, false},
		{"another trust domain", own, "spiffe://b.example/swarm/sl/sl-0", false, false},
		{"below its own", own, own + "/sl-0", true, false}, // no swarm identity has such a path
		{"not registered", "", own, false, false},
		{"nothing proven", own, "", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := admission.CheckIdentity("sl-0", tt.registered, tt.proven)
			other, refused := errors.AsType[*admission.IdentityError](err)
			if refused == tt.good || refused && other.Stale != tt.stale {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestEnrolled(t *testing.T) {
	v := &round.View{Sessions: []*round.Session{
		{Node: "sl-0", PeerID: "a", SPIFFEID: "x", State: "ended"},
		{Node: "sl-1", PeerID: "b", SPIFFEID: "x", State: "ended"},
		{Node: "sl-1", PeerID: "b", SPIFFEID: "x", State: "closed"},
		{Node: "sl-2", SPIFFEID: "x", State: "open"},
	}}
	for _, tt := range []struct {
		peer, proven string
		good         bool
	}{{"a", "x", false}, {"b", "x", true}, {"b", "y", false}, {"c", "x", false}} {
		if err := admission.Enrolled(v, tt.peer, tt.proven); (err == nil) != tt.good {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if admission.Enrolled(&round.View{}, "b", "x") == nil {
		t.Error("enrolled where there is no session")
	}
}

func TestBans(t *testing.T) {
	var cut []string
	b := &admission.Bans{Cut: func(id string) { cut = append(cut, id) }}
	take := func(digest string, ids ...string) []string {
		cut = nil
		b.Take(digest, ids)
		return cut
	}
	if got := take("1", "x", "y"); !slices.Equal(got, []string{"x", "y"}) || b.Seen() != "1" {
		t.Errorf("cut %v, seen %q", got, b.Seen())
	}
	if got := take("1"); got != nil || b.Check("x") == nil {
		t.Errorf("an answer without a list lifts bans, or cut %v", got)
	}
	if got := take("2", "y", "z"); !slices.Equal(got, []string{"z"}) || b.Check("x") != nil || b.Check("y") == nil {
		t.Errorf("cut %v", got)
	}
	if take(""); b.Check("y") != nil || b.Seen() != "" {
		t.Error("bans were lifted and still hold")
	}
	if take("3", make([]string, 100_000)...); b.Check("x") != nil {
		t.Error("x was not in the list")
	}
}

// TestADigestOfBansThatNoSNTakesIsNotRepeated: the SN that leads next would refuse every heartbeat with it. The bans that come with it hold.
func TestADigestOfBansThatNoSNTakesIsNotRepeated(t *testing.T) {
	b := &admission.Bans{}
	for _, tt := range []struct{ size, seen int }{{64, 64}, {128, 128}, {129, 0}, {64, 64}, {1 << 20, 0}} {
		id := fmt.Sprintf("key-%d", tt.size)
		b.Take(strings.Repeat("d", tt.size), []string{id})
		if got := len(b.Seen()); got != tt.seen {
			t.Errorf("of a digest of %d bytes %d are repeated", tt.size, got)
		}
		if b.Check(id) == nil {
			t.Errorf("the bans of a digest of %d bytes do not hold", tt.size)
		}
	}
}
