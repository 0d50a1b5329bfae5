package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/merge"
)

// copied is an SN's ledger, as a reader of events asks for it.
type copied struct {
	raw     []byte
	limit   int // bytes that come before it breaks off; 0: all
	offsets []int64
	now     time.Time
}

func (c *copied) from(_ context.Context, offset int64, w io.Writer) (int64, error) {
	c.offsets = append(c.offsets, offset)
	if offset > int64(len(c.raw)) || offset > 0 && c.raw[offset-1] != '\n' {
		return 0, connect.NewError(connect.CodeInvalidArgument, errors.New("no record begins there"))
	}
	raw := c.raw[offset:]
	if c.limit > 0 && len(raw) > c.limit {
		n, _ := w.Write(raw[:c.limit])
		return int64(n), context.DeadlineExceeded
	}
	n, err := w.Write(raw)
	return int64(n), err
}

// events reads the document after a pause.
func (c *copied) events(t *testing.T, read func(context.Context) (json.RawMessage, error), pause time.Duration) (v struct {
	Good    bool
	Problem string
	Records int
	Events  []struct{ What string }
}, err error,
) {
	t.Helper()
	c.now = c.now.Add(pause)
	said, err := read(t.Context())
	if err == nil {
		if err := json.Unmarshal(said, &v); err != nil {
			t.Fatal(err)
		}
	}
	return v, err
}

// TestEventsAreReadOn: a ledger is read once, in several goes if need be; what failed is not tried again at once; and one that does not go on
// as it was read before is said.
func TestEventsAreReadOn(t *testing.T) {
	l := audited(t)
	c := &copied{raw: bytes.Clone(l.lines), limit: len(l.lines)/2 + 1, now: time.UnixMilli(0)}
	read := swci.ReadEvents(c.from, func() time.Time { return c.now })
	if _, err := c.events(t, read, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reading that breaks off: %v", err)
	}
	if _, err := c.events(t, read, time.Second); !errors.Is(err, context.DeadlineExceeded) || len(c.offsets) != 1 {
		t.Errorf("just after it: %v, read from %v", err, c.offsets)
	}
	c.limit = 0
	v, err := c.events(t, read, 10*time.Minute)
	if err != nil || !v.Good || v.Records != 4 || len(v.Events) != 2 || len(c.offsets) != 2 || c.offsets[1] == 0 {
		t.Errorf("then: %+v, %v, read from %v", v, err, c.offsets)
	}
	l.add(ledger.Reset{Contract: "other", Run: 2})
	c.raw = bytes.Clone(l.lines)
	if v, err = c.events(t, read, time.Second); err != nil || v.Records != 4 {
		t.Errorf("just after it: %+v, %v", v, err)
	}
	if v, err = c.events(t, read, 10*time.Minute); err != nil || v.Records != 5 || len(v.Events) != 3 || v.Events[0].What != "reset" || c.offsets[2] == 0 {
		t.Errorf("when it has grown: %+v, %v, read from %v", v, err, c.offsets)
	}
	c.raw = bytes.Clone(l.lines[:c.offsets[2]]) // an SN that is behind
	for range 11 {
		if v, err = c.events(t, read, 10*time.Minute); err != nil || !v.Good || v.Records != 5 {
			t.Errorf("an SN that is behind: %+v, %v", v, err)
		}
	}
	if v, err = c.events(t, read, 10*time.Minute); err != nil || v.Good || !strings.Contains(v.Problem, "or a shorter one") || v.Records != 4 || len(v.Events) != 2 {
		t.Errorf("that stays behind: %+v, %v, read from %v", v, err, c.offsets)
	}
	other := audited(t)
	other.add(ledger.Reset{Contract: "third", Run: 2})
	c.raw = append(bytes.Clone(l.lines[:c.offsets[2]]), other.lines[bytes.LastIndexByte(other.lines[:len(other.lines)-1], '\n')+1:]...)
	for range 2 {
		if v, err = c.events(t, read, 10*time.Minute); err != nil || v.Good || v.Problem == "" || len(v.Events) != 2 {
			t.Errorf("one that does not go on: %+v, %v", v, err)
		}
	}
}

// TestProofsReadTheLedgerOnce: a proof goes on where the ledger was read to, and of that reads the one record that it shows. That record is held to what
// was judged.
func TestProofsReadTheLedgerOnce(t *testing.T) {
	l := newCommitted(t)
	model := merge.Sum([]byte("model")).String()
	l.train(merge.Sum([]byte("layout")), 6, "mean", model)
	newest := bytes.LastIndexByte(l.lines[:bytes.LastIndex(l.lines, []byte(`"round":6,`))], '\n') + 1
	c := &copied{raw: bytes.Clone(l.lines[:newest]), now: time.UnixMilli(0)}
	proof := swci.ReadProofs(c.from, func() time.Time { return c.now })
	for _, of := range []string{"c/3", "c/5", "c/3"} {
		if said, err := proof(t.Context(), of); err != nil || !strings.Contains(string(said), `"round":`+of[2:]+",") {
			t.Errorf("%s: %s, %v", of, said, err)
		}
		c.now = c.now.Add(10 * time.Minute)
	}
	if n := slices.Index(c.offsets[1:], 0); n >= 0 {
		t.Errorf("read from %v", c.offsets)
	}
	c.raw = bytes.Clone(l.lines)
	if said, err := proof(t.Context(), "c/6"); err != nil || !strings.Contains(string(said), `"round":6,`) {
		t.Errorf("a round that was committed just now: %s, %v", said, err)
	}
	if _, err := proof(t.Context(), "c/7"); err == nil || !strings.Contains(err.Error(), "the ledger has no round 7") {
		t.Errorf("of no round: %v", err)
	}
	c.raw = bytes.ReplaceAll(c.raw, []byte(model), []byte(strings.Repeat("0", 64)))
	if said, err := proof(t.Context(), "c/6"); err == nil || !strings.Contains(err.Error(), "has another record now") {
		t.Errorf("of a record that was changed: %s, %v", said, err)
	}
}

// TestProofsShowWhatWasJudged: number and date of a record, and its place, are those of the ledger that was judged, whatever is sent when the record is
// asked for again.
func TestProofsShowWhatWasJudged(t *testing.T) {
	l := newCommitted(t)
	l.train(merge.Sum([]byte("layout")), 6, "mean", merge.Sum([]byte("model")).String())
	at := l.at.Add(-30 * time.Second).UnixMilli()
	for was, is := range map[string]string{`"seq":8,`: `"seq":9,`, fmt.Sprintf(`"at_ms":%d,`, at): fmt.Sprintf(`"at_ms":%d,`, at+1)} {
		c := &copied{raw: bytes.Clone(l.lines), now: time.UnixMilli(0)}
		proof := swci.ReadProofs(c.from, func() time.Time { return c.now })
		if said, err := proof(t.Context(), "c/3"); err != nil || !strings.Contains(string(said), `"record":8,`) {
			t.Errorf("%s, %v", said, err)
		}
		if c.raw = bytes.Replace(c.raw, []byte(was), []byte(is), 1); bytes.Equal(c.raw, l.lines) {
			t.Fatalf("the ledger has no %s", was)
		}
		if said, err := proof(t.Context(), "c/3"); err == nil || !strings.Contains(err.Error(), "has another record now") {
			t.Errorf("with %s for %s: %s, %v", is, was, said, err)
		}
	}

	bad, other := &copied{raw: append(bytes.Clone(l.lines), "broken\n"...), now: time.UnixMilli(0)}, &copied{raw: audited(t).lines}
	from := bad.from
	proof := swci.ReadProofs(func(ctx context.Context, offset int64, w io.Writer) (int64, error) { return from(ctx, offset, w) }, func() time.Time { return bad.now })
	if said, err := proof(t.Context(), "c/3"); err != nil || !strings.Contains(string(said), `"state":"bad"`) {
		t.Errorf("of a ledger that is broken: %s, %v", said, err)
	}
	bad.now = bad.now.Add(10 * time.Minute)
	from = func(ctx context.Context, offset int64, w io.Writer) (int64, error) { // another ledger, which lacks the contract; but its record is still sent
		if offset > 0 {
			return bad.from(ctx, offset, w)
		}
		return other.from(ctx, offset, w)
	}
	if said, err := proof(t.Context(), "c/3"); err == nil || !strings.Contains(err.Error(), "the ledger has no round 3") {
		t.Errorf("of a ledger that lacks it: %s, %v", said, err)
	}
}
