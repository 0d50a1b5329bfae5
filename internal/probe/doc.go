// Package probe lets the nodes of a swarm probe each other when an operator asks for it: whether one reaches the other anew, how long the way is,
// how much goes through in a second, how the clocks differ.
//
// The leader's board.Board holds one probe in memory and says who probes whom; SLs learn it with the answers to their heartbeats, SNs by a stream
// that the leader opens. Each node's Agent probes one peer at a time and answers one at a time. So that nobody can load a host by it, a probe
// begins once a minute at most, at the board and at each Agent; an Agent answers only the nodes that its job names, each once in a while,
// and takes so many bytes and so much time of each. It dials only what its node itself knows of, whoever leads, and stops measuring when a merge begins.
package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/text"
)

// The libp2p protocols of probes, and of the leader's word to another SN.
const (
	Protocol      = "/swarm/probe/1"
	OrderProtocol = "/swarm/probe-order/1"
)

const (
	// MaxBytes and sendTime bound what goes through to measure how much does.
	MaxBytes = 64 << 20
	sendTime = time.Second
	// servedAgain is how long a peer that was answered is refused.
	servedAgain = 20 * time.Second
	// peerTimeout bounds a probe of one peer, either side.
	peerTimeout = 10 * time.Second
	// busyWait is the pause before another try with a peer that is busy, and busyTries how often.
	busyWait  = 500 * time.Millisecond
	busyTries = 24

	chunk = 64 << 10
	pings = 3
)

// What a probe begins with.
const (
	kindLook    = 1 // only looks
	kindMeasure = 2 // measures too
)

// What is answered.
const (
	statusWell = 0
	statusBusy = 1 // try again in a moment
	statusNo   = 2
)

// refusal is a peer's no.
type refusal struct {
	status byte
	why    string
}

func (r *refusal) Error() string { return "it refuses to be probed: " + r.why }

func (r *refusal) write(w io.Writer) error {
	why := text.Cut(r.why, 200)
	_, err := w.Write(append([]byte{r.status, byte(len(why))}, why...)) //nolint:gosec // cut
	return err
}

// readStatus returns a peer's refusal, nil if it has none.
func readStatus(r io.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	why := make([]byte, head[1])
	if _, err := io.ReadFull(r, why); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	if head[0] == statusWell {
		return nil
	}
	return &refusal{head[0], text.Line(string(why))}
}

// found is what one probe came to.
type found struct {
	looked  bool // trip and ahead are known
	trip    time.Duration
	ahead   time.Duration // by how much the peer's clock is
	rate    int64         // bytes per second; 0: not measured
	why     string        // not
	stopped bool          // this side has stopped measuring, in the middle of it
}

// examine probes the peer at the other end of a stream, and measures until this side is busy.
func examine(s p2p.Conn, measure bool, busy func() string, now func() time.Time) (found, error) {
	kind := byte(kindLook)
	if measure {
		kind = kindMeasure
	}
	if _, err := s.Write([]byte{kind}); err != nil {
		return found{}, err
	}
	if err := readStatus(s); err != nil {
		return found{}, err
	}
	var f found
	for i := range pings {
		sent := now()
		var theirs [8]byte
		if _, err := s.Write([]byte{0}); err != nil {
			return f, err
		}
		if _, err := io.ReadFull(s, theirs[:]); err != nil {
			return f, err
		}
		trip := now().Sub(sent)
		if i == 0 || trip < f.trip {
			f.trip = trip
			f.ahead = time.Unix(0, int64(binary.BigEndian.Uint64(theirs[:]))).Sub(sent.Add(trip / 2)) //nolint:gosec // any value is a time
		}
	}
	f.looked = true
	if !measure {
		return f, nil
	}
	err := readStatus(s)
	if no, ok := errors.AsType[*refusal](err); ok {
		f.why = no.why
		return f, nil
	}
	if err == nil {
		f.rate, err = send(s, busy, now)
	}
	if stop := (*stoppedError)(nil); errors.As(err, &stop) {
		f.why, f.stopped = stop.Error(), true
		return f, nil
	}
	return f, err
}

// stoppedError says why measuring has stopped in the middle of it.
type stoppedError struct{ why string }

func (e *stoppedError) Error() string { return "stopped: " + e.why }

// send sends for a second, or so many bytes, and returns what the peer says of the rate. It stops when this side is busy.
func send(s p2p.Conn, busy func() string, now func() time.Time) (int64, error) {
	buf := make([]byte, 1+chunk)
	buf[0] = 1
	for begun, sent := now(), 0; sent+chunk <= MaxBytes && now().Sub(begun) < sendTime; sent += chunk {
		if why := busy(); why != "" {
			return 0, &stoppedError{why}
		}
		if _, err := s.Write(buf); err != nil {
			return 0, fmt.Errorf("the peer has stopped measuring, as it does when a merge begins: %w", err)
		}
	}
	if _, err := s.Write([]byte{0}); err != nil {
		return 0, err
	}
	var got [16]byte
	if _, err := io.ReadFull(s, got[:]); err != nil {
		return 0, fmt.Errorf("read what it received: %w", err)
	}
	bytes, nanos := binary.BigEndian.Uint64(got[:8]), binary.BigEndian.Uint64(got[8:])
	if bytes > MaxBytes || nanos == 0 || nanos > uint64(peerTimeout) {
		return 0, fmt.Errorf("it says that it received %d bytes in %d ns", bytes, nanos)
	}
	return int64(float64(bytes) / (float64(nanos) / float64(time.Second))), nil
}

// answer answers a probe that was let in; busy returns why nothing is measured now, or empty.
func answer(s p2p.Conn, kind byte, busy func() string, now func() time.Time) error {
	if err := (&refusal{status: statusWell}).write(s); err != nil {
		return err
	}
	var ping [1]byte
	for range pings {
		if _, err := io.ReadFull(s, ping[:]); err != nil {
			return err
		}
		if _, err := s.Write(binary.BigEndian.AppendUint64(nil, uint64(now().UnixNano()))); err != nil { //nolint:gosec // after 1970
			return err
		}
	}
	if kind != kindMeasure {
		return nil
	}
	if why := busy(); why != "" {
		return (&refusal{statusNo, why}).write(s)
	}
	if err := (&refusal{status: statusWell}).write(s); err != nil {
		return err
	}
	return receive(s, busy, now)
}

// errGreedy cuts off a peer that sends more than it may.
var errGreedy = errors.New("the peer sends more than a probe may")

// receive takes what is sent to measure, within bounds and until this side is busy, and says how much it was.
func receive(s p2p.Conn, busy func() string, now func() time.Time) error {
	buf := make([]byte, chunk)
	var bytes uint64
	var begun time.Time
	for {
		var more [1]byte
		if _, err := io.ReadFull(s, more[:]); err != nil {
			return err
		}
		if more[0] == 0 {
			break
		}
		if why := busy(); why != "" {
			return &stoppedError{why}
		}
		if begun.IsZero() {
			begun = now()
		}
		// What is on its way when the second is over may take as long again.
		if bytes+chunk > MaxBytes || now().Sub(begun) > 4*sendTime {
			return errGreedy
		}
		if _, err := io.ReadFull(s, buf); err != nil {
			return err
		}
		bytes += chunk
	}
	took := max(now().Sub(begun), 1)
	out := binary.BigEndian.AppendUint64(nil, bytes)
	_, err := s.Write(binary.BigEndian.AppendUint64(out, uint64(took))) //nolint:gosec // above 0
	return err
}
