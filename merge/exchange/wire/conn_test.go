package wire

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a Stream that is one end of a pipe.
type piped struct{ net.Conn }

func (p piped) CloseWrite() error { return p.Close() }
func (p piped) Reset() error      { return p.Close() }

// fed returns a conn of the attempt that counts there, and what feeds it.
func fed(t *testing.T, stall time.Duration, count *Counters) (*Conn, net.Conn) {
	near, far := net.Pipe()
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	c := NewConn(piped{near}, stall)
	c.count.Store(count)
	return c, far
}

func TestSilentPeerIsLateWhenNobodySendsAnyMore(t *testing.T) {
	const stall, fill = 10 * time.Second, time.Minute
	for name, c := range map[string]struct {
		grace       time.Duration
		bytes       int
		after, most time.Duration
	}{
		"few participants":           {0, 1024, stall, stall},
		"others' leaves come":        {time.Hour, 1024, fill + stall/4, fill + stall/4 + stall},
		"others only show they live": {time.Hour, HeaderSize, stall, stall},
		"no grace is left":           {30 * time.Second, 1024, 30 * time.Second, 30*time.Second + stall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				count := &Counters{}
				if c.grace > 0 {
					count.GraceUntil = began.Add(c.grace)
				}
				silent, _ := fed(t, stall, count)
				busy, feeder := fed(t, stall, count)
				go func() {
					for time.Since(began) < fill {
						if _, err := feeder.Write(make([]byte, c.bytes)); err != nil {
							return
						}
						select {
						case <-time.After(time.Second):
						case <-t.Context().Done():
							return
						}
					}
				}()
				go func() {
					b := make([]byte, 4096)
					for {
						if _, err := busy.Read(b); err != nil {
							return
						}
					}
				}()
				_, err := silent.Read(make([]byte, 1))
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took < c.after || took > c.most {
					t.Errorf("after %s: %v; want a time-out between %s and %s", took, err, c.after, c.most)
				}
			})
		})
	}
}

// TestWoundStreamEndsThoughOthersSend: who leaves an attempt does not wait for a silent peer.
func TestWoundStreamEndsThoughOthersSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		count := &Counters{GraceUntil: began.Add(time.Hour)}
		count.fed.Store(began.Add(time.Hour).UnixNano()) // all the time
		c, _ := fed(t, 10*time.Second, count)
		time.AfterFunc(time.Second, func() { c.EndWithin(time.Second) })
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
