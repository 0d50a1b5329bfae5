package exchange

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
)

// input is a stream that holds bytes.
type input struct{ *bytes.Reader }

func (input) Write(b []byte) (int, error)      { return len(b), nil }
func (input) Close() error                     { return nil }
func (input) CloseWrite() error                { return nil }
func (input) Reset() error                     { return nil }
func (input) SetReadDeadline(time.Time) error  { return nil }
func (input) SetWriteDeadline(time.Time) error { return nil }

func FuzzDecoders(f *testing.F) {
	h := hello{contract: "c", run: 1, round: 2, number: 3, sender: 4, plan: merge.Sum(nil)}
	f.Add(h.appendFrame(nil))
	f.Add(failFrame{blamed: 1, reason: "x\ny\xff"}.append(nil))
	f.Add(newBitmap(9).appendFrame(nil))
	f.Add(unsigned(3, 1, 2, 3))
	f.Add(norm{squares: 1}.append(normHeader(3).append(nil)))
	f.Add(sealFrame{merge.Sum(nil), make([]byte, SealSize)}.frame(2))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newConn(input{bytes.NewReader(b)}, time.Second)
		head, err := c.next(true)
		if err != nil {
			return
		}
		p, err := c.payload(head, maxHello)
		if err != nil {
			return
		}
		used := headerSize + len(p)
		switch head.kind {
		case kindHello:
			if got, err := decodeHello(head.arg, p); err == nil && !bytes.Equal(got.appendFrame(nil), b[:used]) {
				t.Errorf("hello %+v is not what was read", got)
			}
		case kindSums:
			if head != sumsHeader(3) {
				return
			}
			got, err := readShare(bytes.NewReader(p), 3)
			if err == nil && !bytes.Equal(got.appendFrame(nil), b[:used]) {
				t.Errorf("share %v is not what was read", got)
			}
		case kindNorm:
			if head != normHeader(3) {
				return
			}
			got, err := readNorm(bytes.NewReader(p))
			if err == nil && !bytes.Equal(got.append(nil), p) {
				t.Errorf("norm %v is not what was read", got)
			}
		case kindSeal:
			got, err := readSeal(bytes.NewReader(p))
			if err == nil && head == sealHeader(2) && !bytes.Equal(got.frame(2), b[:used]) {
				t.Errorf("seal %+v is not what was read", got)
			}
		case kindFail:
			got, err := decodeFail(head.arg, p, 5)
			if err != nil {
				return
			}
			if got.blamed < -1 || got.blamed >= 5 || bytes.ContainsAny([]byte(got.reason), "\n\r\x00") {
				t.Errorf("fail frame is not bounded: %+v", got)
			}
		}
	})
}

func TestHelloRoundTrip(t *testing.T) {
	want := hello{contract: "defaultbb", run: 1, round: 1 << 40, number: 3, sender: 4, plan: merge.Sum([]byte("p"))}
	b := want.appendFrame(nil)
	head := decodeHeader([headerSize]byte(b))
	got, err := decodeHello(head.arg, b[headerSize:])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, want, cmp.AllowUnexported(hello{})); d != "" {
		t.Errorf("got, want:\n%s", d)
	}
}

func TestFailReasonIsOneCleanLine(t *testing.T) {
	b := failFrame{blamed: -1, reason: "a\x1b[2Jb\nc\u009bd\u202ee\xff"}.append(nil)
	head := decodeHeader([headerSize]byte(b))
	got, err := decodeFail(head.arg, b[headerSize:], 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a [2Jb c d e "; got.reason != want {
		t.Errorf("reason %q, want %q", got.reason, want)
	}
}
