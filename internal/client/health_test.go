package client_test

import (
	"testing"

	"github.com/swarmd/swarmd/internal/client"
)

func TestGetHealthAsksEverySNItself(t *testing.T) {
	s := newSwarm(t, "5eed")
	first, second, third := s.start("sn-0"), s.start("sn-1"), s.start("sn-2")
	second.kill()
	nobody := freePort(t)
	c := s.client("/swarm/swci", nil, first.addr, nobody)
	if err := s.client("/swarm/sl", nil, first.addr).Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	got, err := (client.Operator{Client: c}).GetHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{first.addr: "sn-0", second.addr: "sn-1", third.addr: "sn-2", nobody: ""}
	for _, h := range got {
		name, known := names[h.Address]
		delete(names, h.Address)
		if !known || h.Name != name {
			t.Errorf("asked %q at %q", h.Name, h.Address)
		}
		switch h.Address {
		case second.addr, nobody:
			if client.Reason(h.Err) != client.ReasonUnreachable || h.Nodes != nil {
				t.Errorf("%s: %v, %v", h.Address, h.Nodes, h.Err)
			}
		default:
			if h.Err != nil || len(h.Nodes) != 2 || h.Nodes[0].GetName() != name || !h.Nodes[0].GetHealthy() || h.Nodes[1].GetName() != "sl-0" {
				t.Errorf("%s: %v, %v", h.Address, h.Nodes, h.Err)
			}
		}
	}
	if len(names) > 0 {
		t.Errorf("not asked: %v", names)
	}
}

func TestGetHealthOfAnotherSwarm(t *testing.T) {
	s, other := newSwarm(t, "5eed"), newSwarm(t, "bad")
	other.authority = s.authority
	stranger := other.start("sn-9")
	c := s.client("/swarm/swci", nil, s.start("sn-0").addr, stranger.addr)
	got, err := (client.Operator{Client: c}).GetHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range got {
		if (h.Address == stranger.addr) != (client.Reason(h.Err) == client.ReasonWrongSwarm) {
			t.Errorf("%s: %v, %v", h.Address, h.Nodes, h.Err)
		}
	}
}
