package exchange

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// TestOneNodeParksFewStreams holds that a node which opens streams for plans that never come keeps no other away.
func TestOneNodeParksFewStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(keyed(Config{ParkTime: time.Minute}))
		defer h.Close()
		frame := wire.Hello{Contract: "c", Run: 1, Round: 1, Number: 1, Sender: 1}.AppendFrame(nil)
		serve := func(from string) chan error {
			done := make(chan error, 1)
			go func() { done <- h.Serve(t.Context(), heard{bytes.NewReader(frame)}, from) }()
			return done
		}
		for range maxParkedEach {
			serve("hostile")
		}
		synctest.Wait()
		refused, honest := serve("hostile"), serve("honest")
		synctest.Wait()
		select {
		case err := <-refused:
			if !errors.Is(err, ErrNotReady) {
				t.Errorf("got %v, want ErrNotReady", err)
			}
		default:
			t.Error("one node parks more streams than its share")
		}
		select {
		case err := <-honest:
			t.Errorf("another node's stream was not parked: %v", err)
		default:
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if h.waiting != 0 || len(h.parked) != 0 {
			t.Errorf("%d streams wait, %v", h.waiting, h.parked)
		}
	})
}
