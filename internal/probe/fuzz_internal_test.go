package probe

import (
	"bytes"
	"io"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/p2p"
)

// said is a stream on which a peer has said all that it will.
type said struct {
	p2p.Conn
	io.Reader
	wrote int
}

func (s *said) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func (s *said) Write(p []byte) (int, error) {
	s.wrote += len(p)
	return len(p), nil
}

func never() string { return "" }

// FuzzPeer holds that nothing that a peer says has more read or written than a probe may.
func FuzzPeer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{2, 3, 'n', 'o', '!'})
	f.Add([]byte{0, 0, 0, 1, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &said{Reader: bytes.NewReader(raw)}
		if found, err := examine(s, true, never, time.Now); err == nil && found.rate < 0 {
			t.Errorf("%+v", found)
		}
		if s.wrote > MaxBytes+MaxBytes/chunk+100 {
			t.Errorf("%d bytes written", s.wrote)
		}
		_ = answer(&said{Reader: bytes.NewReader(raw)}, kindMeasure, never, time.Now)
		_ = readMessage(bytes.NewReader(raw), &swarmv1.ProbeJob{})
	})
}
