package wire

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
)

func FuzzDecoders(f *testing.F) {
	h := Hello{Contract: "c", Run: 1, Round: 2, Number: 3, Sender: 4, Plan: merge.Sum(nil)}
	f.Add(h.AppendFrame(nil))
	f.Add(Fail{Blamed: 1, Reason: "x\ny\xff"}.Append(nil))
	f.Add(AppendHave(nil, make([]byte, 2)))
	f.Add(Share{[]float64{1, 2, 3}, make([]Norm, 3)}.AppendFrame(nil))
	f.Add(Norm{Squares: 1}.Append(NormHeader(3).Append(nil)))
	f.Add(Seal{merge.Sum(nil), make([]byte, SealSize)}.Frame(2))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := NewConn(input{bytes.NewReader(b)}, time.Second)
		head, err := c.Next(true)
		if err != nil {
			return
		}
		p, err := c.Payload(head, MaxHello)
		if err != nil {
			return
		}
		used := HeaderSize + len(p)
		switch head.Kind {
		case KindHello:
			if got, err := DecodeHello(head.Arg, p); err == nil && !bytes.Equal(got.AppendFrame(nil), b[:used]) {
				t.Errorf("hello %+v is not what was read", got)
			}
		case KindSums:
			if head != SumsHeader(3) {
				return
			}
			got, err := ReadShare(bytes.NewReader(p), 3)
			if err == nil && !bytes.Equal(got.AppendFrame(nil), b[:used]) {
				t.Errorf("share %v is not what was read", got)
			}
		case KindNorm:
			if head != NormHeader(3) {
				return
			}
			got, err := ReadNorm(bytes.NewReader(p))
			if err == nil && !bytes.Equal(got.Append(nil), p) {
				t.Errorf("norm %v is not what was read", got)
			}
		case KindSeal:
			got, err := ReadSeal(bytes.NewReader(p))
			if err == nil && head == SealHeader(2) && !bytes.Equal(got.Frame(2), b[:used]) {
				t.Errorf("seal %+v is not what was read", got)
			}
		case KindFail:
			got, err := DecodeFail(head.Arg, p, 5)
			if err != nil {
				return
			}
			if got.Blamed < -1 || got.Blamed >= 5 || bytes.ContainsAny([]byte(got.Reason), "\n\r\x00") {
				t.Errorf("fail frame is not bounded: %+v", got)
			}
		}
	})
}

func TestHelloRoundTrip(t *testing.T) {
	want := Hello{Contract: "defaultbb", Run: 1, Round: 1 << 40, Number: 3, Sender: 4, Plan: merge.Sum([]byte("p"))}
	b := want.AppendFrame(nil)
	head := DecodeHeader([HeaderSize]byte(b))
	got, err := DecodeHello(head.Arg, b[HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, want, cmp.AllowUnexported(Hello{})); d != "" {
		t.Errorf("got, want:\n%s", d)
	}
}

func TestFailReasonIsOneCleanLine(t *testing.T) {
	b := Fail{Blamed: -1, Reason: "a\x1b[2Jb\nc\u009bd\u202ee\xff"}.Append(nil)
	head := DecodeHeader([HeaderSize]byte(b))
	got, err := DecodeFail(head.Arg, b[HeaderSize:], 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a [2Jb c d e "; got.Reason != want {
		t.Errorf("reason %q, want %q", got.Reason, want)
	}
}

// input is a stream that holds bytes.
type input struct{ *bytes.Reader }

func (input) Write(b []byte) (int, error)      { return len(b), nil }
func (input) Close() error                     { return nil }
func (input) CloseWrite() error                { return nil }
func (input) Reset() error                     { return nil }
func (input) SetReadDeadline(time.Time) error  { return nil }
func (input) SetWriteDeadline(time.Time) error { return nil }
