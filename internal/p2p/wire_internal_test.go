package p2p

import (
	"errors"
	"net"
	"os"
	"testing"
)

// tornConn takes a part of its first write.
type tornConn struct {
	net.Conn
	writes int
}

func (c *tornConn) Write(p []byte) (int, error) {
	c.writes++
	return len(p) / 2, os.ErrDeadlineExceeded
}

// TestNothingFollowsATornRecord: TLS tells the end of a connection whatever was cut short, and the peer would find a forged record.
func TestNothingFollowsATornRecord(t *testing.T) {
	torn := &tornConn{}
	w := &wire{Conn: torn}
	for range 2 {
		if _, err := w.Write([]byte("record")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want that the deadline passed", err)
		}
	}
	if torn.writes != 1 {
		t.Errorf("%d records were written, want the first one alone", torn.writes)
	}
}
