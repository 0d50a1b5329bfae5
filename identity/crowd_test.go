package identity_test

import (
	"log/slog"
	"net"
	"testing"

	"github.com/swarmd/swarmd/identity"
)

func TestCrowdDropsTheOldestOfTheBusiestAddress(t *testing.T) {
	named, err := identity.ParseIDString("spiffe://own.example/swarm/sl/a")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := identity.ParseIDString("spiffe://own.example/swarm/sl")
	if err != nil {
		t.Fatal(err)
	}
	c := identity.NewCrowd(identity.CrowdLimits{Named: 1, Shared: 3}, slog.New(slog.DiscardHandler))
	dropped := make(chan string, 10)
	enter := func(id identity.ID, from, name string) (leave func()) {
		return c.Enter(id, &net.TCPAddr{IP: net.ParseIP(from)}, func() { dropped <- name })
	}
	enter(shared, "192.0.2.1", "lonely")
	enter(shared, "192.0.2.2", "first")
	leave := enter(shared, "192.0.2.2", "second")
	enter(named, "192.0.2.2", "alone")
	enter(shared, "192.0.2.3", "newcomer")
	if got := <-dropped; got != "first" {
		t.Errorf("%s gave way, want first", got)
	}
	leave()
	leave()
	enter(shared, "192.0.2.2", "third") // in the place of who left
	enter(named, "192.0.2.2", "again")
	if got := <-dropped; got != "alone" {
		t.Errorf("%s gave way, want alone", got)
	}
	if len(dropped) > 0 {
		t.Errorf("%s gave way too", <-dropped)
	}
}
