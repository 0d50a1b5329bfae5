package exchange

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// said is a stream on which a peer has said something.
type said struct {
	Stream
	io.Reader
}

func (s said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func (said) SetReadDeadline(time.Time) error { return nil }

// TestOldFailuresAreNoAnswer: on a stream of an earlier attempt, what ended that one says nothing of this one.
func TestOldFailuresAreNoAnswer(t *testing.T) {
	for _, code := range []code{codeFailed, codeHeard} {
		f := failFrame{blamed: 2, code: code, reason: "the stream ended"}
		b := f.append(nil)
		c := newConn(said{Reader: bytes.NewReader(b[headerSize:])}, time.Second)
		c.count.Store(new(counters))
		r := &run{Attempt: Attempt{Participants: make([]Participant, 3)}}
		v := &visitor{run: r, j: 1, c: c, reused: true}
		if again, err := v.refused(decodeHeader([headerSize]byte(b))); !again || err != nil {
			t.Errorf("code %d: again %t, %v; want that the owner is asked again", code, again, err)
		}
	}
}
