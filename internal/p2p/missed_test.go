package p2p_test

import (
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// TestMissedTellsWhoLooksForAnother: a member of a swarm that dials an address where another node was before is told of, whether this
// node has no swarm or another one; who only asks who is there is not.
func TestMissedTellsWhoLooksForAnother(t *testing.T) {
	for _, own := range []string{"", swarmB} {
		sw := p2ptest.New(t)
		told := make(chan string, 2)
		cfg := sw.Config(identity.RoleSN, own)
		cfg.Missed = func(who identity.ID, swarmID string, _ net.Addr) { told <- who.String() + " of " + swarmID }
		here := p2ptest.Start(t, cfg)
		member, lost := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSN, swarmA)
		at := p2ptest.AddrOf(t, here)
		asked := net.JoinHostPort(at.Host, strconv.Itoa(at.Port))
		if _, err := member.Contact(t.Context(), asked, identity.RoleSN); (err == nil) != (own == "") {
			t.Fatalf("contact: %v", err)
		}
		at.PeerID = lost.ID()
		var other *p2p.PeerMismatchError
		if _, err := sw.Host(identity.RoleSN, swarmA).Dial(t.Context(), at, echo); !errors.As(err, &other) {
			t.Fatalf("dial: %v", err)
		}
		if got, want := <-told, "spiffe://swarm.learning/swarm/sn of "+swarmA; got != want || len(told) > 0 {
			t.Errorf("told of %q, want %q alone", got, want)
		}
	}
}
