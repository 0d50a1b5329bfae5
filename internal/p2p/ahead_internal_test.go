package p2p

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// source is a connection on which bytes come in pieces.
type source struct {
	net.Conn
	data   []byte
	pieces func() int
	reads  int
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	s.reads++
	n := copy(p[:min(len(p), max(1, s.pieces()))], s.data)
	s.data = s.data[n:]
	return n, nil
}

func sent(n int) []byte {
	r, out := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// TestReadingAheadFollowsWhatComes: all bytes come, in their order, by few reads where many wait; a connection on which
// little comes at a time has next to no buffer.
func TestReadingAheadFollowsWhatComes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, c := range map[string]struct {
		pieces      func() int
		most        int
		ahead       int // bytes that the buffer may have at most
		least, ends int // bytes that it has at least; reads at most
	}{
		"bulk":          {pieces: func() int { return 1 << 30 }, most: readAhead, ahead: readAhead, least: readAhead, ends: 30},
		"no ahead":      {pieces: func() int { return 1 << 30 }, most: 0, ahead: 0, ends: 1 << 20},
		"little pieces": {pieces: func() int { return 700 }, most: readAhead, ahead: 0, ends: 1 << 20},
		"any pieces":    {pieces: func() int { return r.IntN(100 << 10) }, most: readAhead, ahead: readAhead, ends: 1 << 20},
	} {
		want := sent(1 << 20)
		from := &source{data: want, pieces: c.pieces}
		w := &wire{Conn: from, most: c.most}
		var got bytes.Buffer
		for room := 1024; ; room = 1024 + r.IntN(16<<10) {
			p := make([]byte, room)
			n, err := w.Read(p)
			got.Write(p[:n])
			if err != nil {
				break
			}
		}
		if !bytes.Equal(got.Bytes(), want) || !w.ended {
			t.Errorf("%s: other bytes came out, or no end", name)
		}
		if len(w.ahead) > c.ahead || len(w.ahead) < c.least || from.reads > c.ends {
			t.Errorf("%s: a buffer of %d bytes and %d reads; want %d to %d and at most %d", name, len(w.ahead), from.reads, c.least, c.ahead, c.ends)
		}
	}
}
