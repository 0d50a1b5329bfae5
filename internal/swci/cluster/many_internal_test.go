package cluster

import "testing"

// TestRoomForManyProcesses: 128 SLs, 50 SNs, an authority or SPIRE's two, and the programs' helpers are started without waiting for any.
func TestRoomForManyProcesses(t *testing.T) {
	c, err := New(Config{Swarmd: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.sns = []string{"127.0.0.1:1"}
	for i := range 128 + 50 + 8 {
		if _, err := c.StartSL(SLSpec{Index: i, Expected: 128}); err != nil {
			t.Fatal(err)
		}
	}
}
