package client

import (
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestEverySNIsTried: of SNs that have one address behind a proxy, and of such with an address that is none.
func TestEverySNIsTried(t *testing.T) {
	d := &directory{first: []string{"b:1"}, current: "a:1", moved: make(chan struct{})}
	d.learn("s", "", []*swarmv1.Node{
		{Name: "1", ApiService: "a:1"},
		{Name: "2", ApiService: "a:1"},
		{Name: "3", Host: "c", ApiPort: 1},
		{Name: "4", Host: "d", ApiPort: 5, ApiService: "no-port"},
		{Name: "5", ApiService: "e:http"},
	})
	tried := map[string]bool{d.current: true}
	for range 4 {
		d.moveFrom(d.current)
		tried[d.current] = true
	}
	for _, want := range []string{"a:1", "b:1", "c:1", "d:5"} {
		if !tried[want] {
			t.Errorf("%s is never tried: %v", want, tried)
		}
	}
	if len(tried) != 4 {
		t.Errorf("tried %v", tried)
	}
}
