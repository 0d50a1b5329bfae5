package exchange

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// said is a stream on which a peer has said something.
type said struct {
	wire.Stream
	io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func (said) SetReadDeadline(time.Time) error { return nil }

// TestOldFailuresAreNoAnswer: on a stream of an earlier attempt, what ended that one says nothing of this one.
func TestOldFailuresAreNoAnswer(t *testing.T) {
	for _, code := range []wire.Code{wire.CodeFailed, wire.CodeHeard} {
		f := wire.Fail{Blamed: 2, Code: code, Reason: "the stream ended"}
		b := f.Append(nil)
		c := wire.NewConn(said{Reader: bytes.NewReader(b[wire.HeaderSize:])}, time.Second)
		c.CountIn(new(wire.Counters))
		f2 := &fetcher{plan: &assignment{Attempt: Attempt{Participants: make([]Participant, 3)}}}
		s := &clientStream{Conn: c, j: 1, reused: true}
		if again, err := f2.refused(s, wire.DecodeHeader([wire.HeaderSize]byte(b))); !again || err != nil {
			t.Errorf("code %d: again %t, %v; want that the owner is asked again", code, again, err)
		}
	}
}

// TestNoLeafInTurnOnceOver holds that nothing is sent when the attempt or the stream ended while it waited, even if its turn came.
func TestNoLeafInTurnOnceOver(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan struct{})
	close(closed)
	for name, c := range map[string]struct {
		ctx   context.Context
		quit  chan struct{}
		taken int
	}{
		"attempt is over": {ctx: over},
		"stream is gone":  {ctx: t.Context(), quit: closed, taken: schedule.Writers},
	} {
		t.Run(name, func(t *testing.T) {
			r := &sendScheduler{plan: &assignment{Attempt: Attempt{Participants: make([]Participant, 2)}}, ctx: c.ctx, sched: schedule.New(time.Hour)}
			var taken []*schedule.Turn
			for range c.taken {
				taken = append(taken, r.sched.Ask(schedule.Rank{}))
			}
			for range 100 {
				err := r.schedule(wire.NewConn(alwaysQueues{}, time.Second), 1, schedule.Rank{}, c.quit, func() error { t.Fatal("sent"); return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, x := range taken {
				r.sched.End(x)
			}
			for range schedule.Writers { // If one of those above were left, it would be before these, or in their place.
				select {
				case <-r.sched.Ask(schedule.Rank{Merged: true, Share: 1}).Granted:
				default:
					t.Error("a turn was not given back")
				}
			}
		})
	}
}

type alwaysQueues struct{ wire.Stream }

func (alwaysQueues) Queues() bool { return true }

// heard is a stream that holds bytes.
type heard struct{ *bytes.Reader }

func (heard) Write(b []byte) (int, error)      { return len(b), nil }
func (heard) Close() error                     { return nil }
func (heard) CloseWrite() error                { return nil }
func (heard) Reset() error                     { return nil }
func (heard) SetReadDeadline(time.Time) error  { return nil }
func (heard) SetWriteDeadline(time.Time) error { return nil }
