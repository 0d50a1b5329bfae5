package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// memory is a slot and a scratch file.
type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error)  { return copy(p, m[off:]), nil }
func (m memory) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }
func (m memory) Close() error                             { return nil }

// end is one end of a stream.
type end struct{ in, out net.Conn }

func newEnds() (*end, *end) {
	x1, x2 := net.Pipe()
	y1, y2 := net.Pipe()
	return &end{in: x1, out: y1}, &end{in: y2, out: x2}
}

func (p *end) Read(b []byte) (int, error)         { return p.in.Read(b) }
func (p *end) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p *end) CloseWrite() error                  { return p.out.Close() }
func (p *end) Close() error                       { return errors.Join(p.out.Close(), p.in.Close()) }
func (p *end) Reset() error                       { return p.Close() }
func (p *end) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *end) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// hostileLeaves is how many leaves the model of these tests has; the last one is short.
const hostileLeaves = 5

// duel is an attempt of two: this node, and a peer whose bytes the test writes. The owner has all leaves.
type duel struct {
	a     Attempt
	slots Slots
	model []byte
}

func newDuel(tb testing.TB, method string, owner int) *duel {
	tb.Helper()
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{(hostileLeaves-1)*merge.MaxLeafSize/4 + 100}}})
	if err != nil {
		tb.Fatal(err)
	}
	l = l.WithLeafSize(merge.MaxLeafSize)
	m, err := merge.ParseMethod(method)
	if err != nil {
		tb.Fatal(err)
	}
	a := Attempt{Contract: "c", Run: 1, Round: 2, Number: 1, Layout: l, Method: m.String()}
	a.Participants = []Participant{{Node: "us", Weight: 1}, {Node: "peer", Weight: 1}}
	a.Participants[owner].Shard.Leaves = l.Leaves()
	size := l.Bytes() + m.StateBytes(l)
	return &duel{a: a, model: make([]byte, l.Bytes()), slots: Slots{
		Local: make(memory, size), Merged: make(memory, size),
		Spool: func(n int64) (Spool, error) { return make(memory, n), nil },
	}}
}

func (d *duel) leaf(i int) []byte {
	n := d.a.Layout.LeafLen(i)
	b := wire.Header{Kind: wire.KindLeaf, Arg: uint32(i), Length: uint32(n)}.Append(nil)
	return append(b, d.model[:n]...)
}

func (d *duel) leaves() (b []byte) {
	for i := range hostileLeaves {
		b = append(b, d.leaf(i)...)
	}
	return b
}

func (d *duel) hello() wire.Hello {
	return wire.Hello{Contract: "c", Run: 1, Round: 2, Number: 1, Sender: 1, Plan: d.a.planDigest()}
}

// seal is the peer's on what it gave as owner of all leaves.
func (d *duel) seal(leaf func(i int) []byte) []byte {
	var digests []merge.Digest
	for i := range hostileLeaves {
		digests = append(digests, merge.Sum(leaf(i)))
	}
	return d.sealOf(merge.Combine(digests))
}

func (d *duel) sealOf(shard merge.Digest) []byte {
	sig, _ := keyed(Config{}).Sign(SealMessage(Sealed{Contract: "c", Run: 1, Round: 2, Number: 1, Plan: d.a.planDigest(), Owner: 1, Shard: shard}))
	return wire.Seal{Shard: shard, Sig: sig}.Frame(1)
}

// share is what the peer tells as owner of all leaves: one distance, and both contributors' norms, signed.
func (d *duel) share(distance float64, squares ...float64) wire.Share {
	s := wire.Share{Sums: []float64{distance}}
	for i, v := range squares {
		n := wire.Norm{Squares: v}
		sig, _ := keyed(Config{}).Sign(NormMessage(Normed{d.a.planDigest(), i, 1, v}))
		copy(n.Sig[:], sig)
		s.Norms = append(s.Norms, n)
	}
	return s
}

// unsigned is the frame of sums whose norms nobody has signed.
func unsigned(contributors int, sums ...float64) []byte {
	return wire.Share{Sums: sums, Norms: make([]wire.Norm, contributors)}.AppendFrame(nil)
}

func have() []byte { return wire.AppendHave(nil, leafset.NewBitmap(hostileLeaves)) }

// contribute runs the attempt at an owner to whom the peer says these bytes. served is how the stream ended.
func (d *duel) contribute(t *testing.T, said []byte) (ran, served error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := NewHub(keyed(Config{}))
	defer h.Close()
	defer cancel()
	near, far := newEnds()
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, near, "peer") }()
	quiet := make(chan struct{})
	go func() { defer close(quiet); _, _ = io.Copy(io.Discard, far) }()
	go func() {
		_, _ = far.Write(said)
		_ = far.CloseWrite()
	}()
	_, ran = h.Run(ctx, d.a, d.slots, func(context.Context, int, bool) (wire.Stream, error) {
		near, far := newEnds() // If it is an owner too, the peer says nothing as such.
		go func() { _, _ = io.Copy(io.Discard, far) }()
		return near, nil
	})
	served = <-done
	_ = far.Close()
	<-quiet
	return ran, served
}

// visitPeer runs the attempt at a participant to whom the owner says these bytes, and asks it what it got.
func (d *duel) visitPeer(t *testing.T, said []byte) error {
	t.Helper()
	h := NewHub(keyed(Config{}))
	defer h.Close()
	if err := d.visit(t, h, said); err != nil {
		return err
	}
	return h.VerifySeals(d.a.Contract, d.a.Run, d.a.Round, d.a.Number)
}

func (d *duel) visit(t *testing.T, h *Hub, said []byte) error {
	_, err := h.Run(t.Context(), d.a, d.slots, func(context.Context, int, bool) (wire.Stream, error) {
		near, far := newEnds()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() {
			_, _ = far.Write(said)
			_ = far.CloseWrite()
		}()
		return near, nil
	})
	return err
}

// keyed gives a configuration keys that know no names.
func keyed(c Config) Config {
	c.Sign = func(msg []byte) ([]byte, error) {
		d := merge.Sum(msg)
		return append(d[:], d[:]...), nil
	}
	c.Verify = func(_ string, msg, sig []byte) error {
		if want, _ := c.Sign(msg); !bytes.Equal(sig, want) {
			return errors.New("wrong signature")
		}
		return nil
	}
	return c
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestBadContributions holds an owner to refuse what no honest contributor sends, and to blame its sender.
func TestBadContributions(t *testing.T) {
	d := newDuel(t, "mean", 0)
	hi := d.hello().AppendFrame(nil)
	long := append(wire.Header{Kind: wire.KindLeaf, Arg: 1, Length: merge.MaxLeafSize + 4}.Append(nil), make([]byte, merge.MaxLeafSize+4)...)
	short := append(wire.Header{Kind: wire.KindLeaf, Arg: 1, Length: merge.MaxLeafSize - 4}.Append(nil), make([]byte, merge.MaxLeafSize-4)...)
	cases := map[string][]byte{
		"too long":         join(hi, have(), d.leaf(0), long, d.leaf(2), d.leaf(3), d.leaf(4)),
		"too short":        join(hi, have(), d.leaf(0), short, d.leaf(2), d.leaf(3), d.leaf(4)),
		"cut":              join(hi, have(), d.leaf(0), d.leaf(1)[:1000]),
		"repeated":         join(hi, have(), d.leaf(0), d.leaf(0), d.leaf(1), d.leaf(2), d.leaf(3), d.leaf(4)),
		"out of order":     join(hi, have(), d.leaf(1), d.leaf(0), d.leaf(2), d.leaf(3), d.leaf(4)),
		"of no shard":      join(hi, have(), wire.Header{Kind: wire.KindLeaf, Arg: 1 << 31, Length: merge.MaxLeafSize}.Append(nil), make([]byte, merge.MaxLeafSize)),
		"last too long":    join(hi, have(), d.leaf(0), d.leaf(1), d.leaf(2), d.leaf(3), wire.Header{Kind: wire.KindLeaf, Arg: 4, Length: merge.MaxLeafSize}.Append(nil), make([]byte, merge.MaxLeafSize)),
		"no bitmap":        join(hi, d.leaves()),
		"bitmap too long":  join(hi, wire.AppendHave(nil, leafset.NewBitmap(8*hostileLeaves)), d.leaves()),
		"unknown kind":     join(hi, have(), wire.Header{Kind: 99}.Append(nil)),
		"distances":        join(hi, have(), unsigned(2, 1)),
		"norm":             join(hi, have(), wire.Norm{}.Append(wire.NormHeader(1).Append(nil)), d.leaves()),
		"alive for ever":   join(hi, have(), bytes.Repeat(wire.Header{Kind: wire.KindWait}.Append(nil), 1000)),
		"hello in between": join(hi, have(), d.leaf(0), hi, have(), d.leaves()),
	}
	for name, said := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran, served := newDuel(t, "mean", 0).contribute(t, said)
				var f *Failure
				if !errors.As(ran, &f) || f.Blamed != 1 {
					t.Errorf("got %v, want blame of the peer", ran)
				}
				if served == nil {
					t.Error("the stream was served to its end")
				}
			})
		})
	}
}

// TestStreamsOfOtherAttempts holds that what does not belong to the attempt does not touch it.
func TestStreamsOfOtherAttempts(t *testing.T) {
	d := newDuel(t, "mean", 0)
	other := func(change func(*wire.Hello)) []byte {
		hi := d.hello()
		change(&hi)
		return join(hi.AppendFrame(nil), have(), d.leaves())
	}
	cases := map[string]struct {
		said []byte
		want error
	}{
		"before hello":     {join(have(), d.leaves()), wire.ErrFrame},
		"leaf first":       {d.leaves(), wire.ErrFrame},
		"an older round":   {other(func(h *wire.Hello) { h.Round = 1 }), ErrSuperseded},
		"a newer round":    {other(func(h *wire.Hello) { h.Round = 3 }), ErrNotReady},
		"another run":      {other(func(h *wire.Hello) { h.Run = 0 }), ErrSuperseded},
		"another attempt":  {other(func(h *wire.Hello) { h.Number = 7 }), ErrNotReady},
		"another contract": {other(func(h *wire.Hello) { h.Contract = "d" }), ErrNotReady},
		"another plan":     {other(func(h *wire.Hello) { h.Plan[0]++ }), ErrDenied},
		"another sender":   {other(func(h *wire.Hello) { h.Sender = 0 }), ErrDenied},
		"no participant":   {other(func(h *wire.Hello) { h.Sender = 4000 }), ErrDenied},
		"sender too large": {other(func(h *wire.Hello) { h.Sender = wire.MaxParticipants }), wire.ErrFrame},
		"hello too long":   {append(wire.Header{Kind: wire.KindHello, Arg: 1, Length: wire.MaxHello + 1}.Append(nil), make([]byte, wire.MaxHello+1)...), wire.ErrFrame},
		"huge hello":       {wire.Header{Kind: wire.KindHello, Arg: 1, Length: math.MaxUint32}.Append(nil), wire.ErrFrame},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran, served := newDuel(t, "mean", 0).contribute(t, c.said)
				if !errors.Is(served, c.want) {
					t.Errorf("served: got %v, want %v", served, c.want)
				}
				// The attempt still waits for the stream that it was promised.
				if ran == nil || !strings.Contains(ran.Error(), "opened no stream in time") {
					t.Errorf("ran: got %v, want that no stream came", ran)
				}
			})
		})
	}
}

func TestALeafAfterTheEndEndsTheStreamOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel(t, "mean", 0)
		ran, served := d.contribute(t, join(d.hello().AppendFrame(nil), have(), d.leaves(), d.leaf(4)))
		if ran != nil || !errors.Is(served, wire.ErrFrame) {
			t.Errorf("ran %v, served %v, want success and a broken frame", ran, served)
		}
	})
}

// TestBadOwners holds a participant to refuse what no honest owner sends.
func TestBadOwners(t *testing.T) {
	const method = "geomedian"
	d := newDuel(t, method, 1)
	told := d.share(1, 0, 1)
	good := told.AppendFrame(nil)
	lying := wire.Header{Kind: wire.KindSums, Arg: 2, Length: 16}.Append(nil)
	plain := d.seal(func(i int) []byte { return d.model[:d.a.Layout.LeafLen(i)] })
	seal := d.sealOf(withShare(merge.Digest(plain[wire.HeaderSize:]), told))
	wrong := d.share(1, 0, 1)
	wrong.Norms[0].Sig[0] ^= 1
	forged := bytes.Clone(seal)
	forged[len(forged)-1] ^= 1
	cases := map[string][]byte{
		"no seal":             join(have(), good, d.leaves()),
		"seal without sums":   join(have(), good, d.leaves(), plain),
		"sums beyond norms":   join(have(), d.share(1.001, 0, 1).AppendFrame(nil), d.leaves()),
		"sums below norms":    join(have(), d.share(0.999, 0, 1).AppendFrame(nil), d.leaves()),
		"norm of no key":      join(have(), wrong.AppendFrame(nil), d.leaves()),
		"norm of another":     join(have(), d.share(1, 1, 0).AppendFrame(nil), d.leaves()),
		"norm not a number":   join(have(), d.share(1, 0, math.NaN()).AppendFrame(nil), d.leaves()),
		"seal too early":      join(have(), good, d.leaf(0), seal),
		"seal of other bytes": join(have(), good, d.leaves(), d.sealOf(merge.Sum(nil))),
		"forged seal":         join(have(), good, d.leaves(), forged),
		"seal of another":     join(have(), good, d.leaves(), wire.SealHeader(0).Append(nil), seal[wire.HeaderSize:]),
		"huge seal":           join(have(), good, d.leaves(), wire.Header{Kind: wire.KindSeal, Arg: 1, Length: math.MaxUint32}.Append(nil)),
		"seal cut":            join(have(), good, d.leaves(), seal[:len(seal)-1]),
		"leaf too long":       join(have(), good, wire.Header{Kind: wire.KindLeaf, Arg: 0, Length: merge.MaxLeafSize + 1}.Append(nil), make([]byte, merge.MaxLeafSize+1)),
		"leaf too short":      join(have(), good, wire.Header{Kind: wire.KindLeaf, Arg: 0, Length: 4}.Append(nil), make([]byte, 4)),
		"leaf repeated":       join(have(), good, d.leaf(0), d.leaf(0)),
		"leaf out of order":   join(have(), good, d.leaf(1), d.leaf(0)),
		"leaf before sums":    join(have(), d.leaf(0), good),
		"sums before bitmap":  join(good, have(), d.leaves()),
		"never ready":         wire.Fail{Blamed: -1, Code: wire.CodeNotReady}.Append(nil),
		"no sums":             join(have(), d.leaves()),
		"sums repeated":       join(have(), good, good, d.leaves()),
		"sums of more":        join(have(), unsigned(3, 1, 2, 3), d.leaves()),
		"sums of none":        join(have(), unsigned(1), d.leaves()),
		"sums too long":       join(have(), lying, make([]byte, 16), d.leaves()),
		"huge sums":           join(have(), wire.Header{Kind: wire.KindSums, Arg: 2, Length: math.MaxUint32}.Append(nil)),
		"sums cut":            join(have(), good[:len(good)-1]),
		"NaN":                 join(have(), unsigned(2, math.NaN()), d.leaves()),
		"infinite":            join(have(), unsigned(2, math.Inf(1)), d.leaves()),
		"negative":            join(have(), unsigned(2, -1), d.leaves()),
		"bitmap of one more":  join(wire.AppendHave(nil, leafset.NewBitmap(8*hostileLeaves)), good, d.leaves()),
		"hello for an answer": join(d.hello().AppendFrame(nil), have(), good, d.leaves()),
		"wait with a payload": join(have(), wire.Header{Kind: wire.KindWait, Arg: 0, Length: 1 << 30}.Append(nil)),
		"fail of a stranger":  join(have(), wire.Header{Kind: wire.KindFail, Arg: 77, Length: 1}.Append(nil), []byte{0}),
		"huge fail":           join(have(), wire.Header{Kind: wire.KindFail, Arg: 0, Length: math.MaxUint32}.Append(nil)),
	}
	for name, said := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := newDuel(t, method, 1).visitPeer(t, said)
				var f *Failure
				if !errors.As(err, &f) || f.Blamed != 1 {
					t.Errorf("got %v, want blame of the owner", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		if err := newDuel(t, method, 1).visitPeer(t, join(have(), good, d.leaves(), seal)); err != nil {
			t.Errorf("an honest owner: %v", err)
		}
	})
}

// TestAForgedSealIsFoundWhenAsked: as long as all hold the same nobody looks. Who has looked resumes with nothing of that owner, and nobody
// vouches for an attempt that is not the newest.
func TestAForgedSealIsFoundWhenAsked(t *testing.T) {
	for _, method := range []string{"mean", "geomedian"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDuel(t, method, 1)
			said, forged := join(have(), d.leaves()), d.seal(func(i int) []byte { return d.model[:d.a.Layout.LeafLen(i)] })
			if method == "geomedian" {
				told := d.share(1, 0, 1)
				said, forged = join(have(), told.AppendFrame(nil), d.leaves()), d.sealOf(withShare(merge.Digest(forged[wire.HeaderSize:]), told))
			}
			forged[len(forged)-1] ^= 1
			h := NewHub(keyed(Config{}))
			defer h.Close()
			if err := d.visit(t, h, join(said, forged)); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			if err := h.VerifySeals(d.a.Contract, d.a.Run, d.a.Round, d.a.Number+1); !errors.Is(err, ErrSuperseded) {
				t.Errorf("%s: another attempt: %v", method, err)
			}
			var f *Failure
			if err := h.VerifySeals(d.a.Contract, d.a.Run, d.a.Round, d.a.Number); !errors.As(err, &f) || f.Blamed != 1 || f.HeardFrom != -1 {
				t.Errorf("%s: got %v, want that it blames the owner for itself", method, err)
			}
			p := h.contracts[d.a.Contract].progress
			if method == "geomedian" && !p.invalid || method == "mean" && !bytes.Equal(p.merged.Bitmap(leafset.Runs{{Leaves: hostileLeaves}}), leafset.NewBitmap(hostileLeaves)) {
				t.Errorf("%s: what came can be resumed", method)
			}
		})
	}
}

func TestPlansThatDoNotFitTheirMethod(t *testing.T) {
	change := func(method string, f func(*Attempt)) Attempt {
		d := newDuel(t, method, 0)
		f(&d.a)
		return d.a
	}
	none := func(*Attempt) {}
	cases := map[string]Attempt{
		"too few":          change("krum(f=1)", none),
		"no factors":       change("normclip", none),
		"factor above 1":   change("normclip", func(a *Attempt) { a.Participants[0].Factor, a.Participants[1].Factor = 1, 1.5 }),
		"NaN factor":       change("normclip", func(a *Attempt) { a.Participants[0].Factor, a.Participants[1].Factor = 1, math.NaN() }),
		"factors for none": change("mean", func(a *Attempt) { a.Participants[0].Factor = 1 }),
		"other spelling":   change("mean", func(a *Attempt) { a.Method = "Mean" }),
		"no method":        change("mean", func(a *Attempt) { a.Method = "" }),
	}
	for name, a := range cases {
		if _, err := a.check(); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: got %v, want ErrPlan", name, err)
		}
	}
	if _, err := crowd(t).check(); !errors.Is(err, ErrPlan) {
		t.Errorf("distances that do not fit: got %v, want ErrPlan", err)
	}
}

// crowd has as many participants as a plan may name, all owners.
func crowd(t *testing.T) *Attempt {
	t.Helper()
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Uint8, Shape: []int64{wire.MaxParticipants * merge.MaxLeafSize}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := merge.ParseMethod("geomedian")
	if err != nil {
		t.Fatal(err)
	}
	a := &Attempt{Contract: "c", Run: 1, Round: 1, Number: 1, Layout: l, Method: m.String()}
	for i := range wire.MaxParticipants {
		name := string(binary.LittleEndian.AppendUint32(nil, uint32(i)))
		a.Participants = append(a.Participants, Participant{Node: name, Weight: 1, Shard: merge.Shard{First: i, Leaves: 1}})
	}
	return a
}
