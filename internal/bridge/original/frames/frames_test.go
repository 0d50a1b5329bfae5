package frames_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/bridge/original/frames"
	"github.com/swarmd/swarmd/merge"
)

// TestHeader holds the 22 bytes to those of the original's client.
func TestHeader(t *testing.T) {
	h := frames.Header{Version: 2, Type: frames.Status, Size: 1}
	const want = "0a0a0d02000000150200000015010000001d01000000"
	if got := hex.EncodeToString(h.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	empty := frames.Header{Version: 1, Type: frames.Synced}
	if got, err := frames.ParseHeader([frames.HeaderSize]byte(empty.Append(nil))); got != empty || err != nil {
		t.Errorf("an empty message's: %+v, %v", got, err)
	}
	if _, err := frames.ParseHeader([frames.HeaderSize]byte(bytes.Repeat([]byte{'x'}, 22))); !errors.Is(err, frames.ErrNoHeader) {
		t.Errorf("no header: %v", err)
	}
}

// TestBodiesAreBounded: what is announced is not allocated before it comes.
func TestBodiesAreBounded(t *testing.T) {
	if _, err := frames.ReadBody(strings.NewReader(""), frames.Header{Type: frames.OpenSession, Size: 0xffffffff}, nil); err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("4 GiB of a small message: %v", err)
	}
	huge := frames.Header{Type: frames.Sync, Size: frames.MaxWeights}
	body, err := frames.ReadBody(strings.NewReader("short"), huge, nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "short" || cap(body) > 1<<20 {
		t.Errorf("2 GiB of which 5 bytes come: %v, %d bytes of %d", err, len(body), cap(body))
	}
	long := strings.Repeat("0123456789", 1<<20)
	body, err = frames.ReadBody(strings.NewReader(long+"more"), frames.Header{Type: frames.Sync, Size: uint32(len(long))}, body)
	if err != nil || string(body) != long {
		t.Errorf("10 MiB: %v, %d bytes", err, len(body))
	}
}

// opening is a SessionRequest of release 2.3, as protoc 3.21 and protobuf for Python 4.25 encode it.
const opening = "0804100220012a08736e617073686f7430643a046d696e6542046d65616e"

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMessages(t *testing.T) {
	o, err := frames.ParseOpening(decoded(t, opening))
	if want := (frames.Opening{Interval: 4, MinPeers: 2, Adaptive: true, CheckinMode: "snapshot", Weight: 100, Contract: "mine", Method: "mean"}); err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	offer, err := frames.ParseOffer(decoded(t, "0a017310071801"+"2a03616263"))
	if err != nil || offer.Session != "s" || offer.Seq != 7 || offer.Weight != 1 || string(offer.Weights) != "abc" {
		t.Errorf("%+v, %v", offer, err)
	}
	m, err := frames.ParseMeasured(decoded(t, "2200"+"2d0000803f"+"350000003f"+"3803"+"4009"))
	if want := (frames.Measured{Loss: 1, Metric: 0.5, Done: 3, Total: 9}); err != nil || m != want {
		t.Errorf("%+v, %v", m, err)
	}
	reason, err := frames.ParseKill(decoded(t, "1206080212026279"))
	if err != nil || reason != (frames.Verdict{Code: 2, Message: "by"}) {
		t.Errorf("%+v, %v", reason, err)
	}
	if _, err := frames.ParseOpening(decoded(t, "0a0161")); err == nil {
		t.Error("a text was taken for a number")
	}
	if got := hex.EncodeToString(frames.AppendDone(nil, offer, frames.Verdict{Code: 1, Message: "no"}, 4, true)); got != "0a017310071a06080112026e6f20042801" {
		t.Errorf("an answer: %s", got)
	}
	if got := hex.EncodeToString(frames.AppendOpened(nil, frames.Verdict{}, "s")); got != "0a00120173" {
		t.Errorf("a session: %s", got)
	}
	if got := hex.EncodeToString(frames.AppendQuestion(nil, offer, 1, "f")); got != "0a017310071801220166" {
		t.Errorf("a question: %s", got)
	}
}

// weights are two arrays, out of order.
func weights() []array.Value {
	return []array.Value{
		{Name: "w", DType: merge.Float32, Shape: []int64{2, 300}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 600)},
		{Name: "n", DType: merge.Float64, Data: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
		{Name: "empty", DType: merge.Bool, Shape: []int64{0}},
	}
}

// question writes weights as a message and returns those of the message that is sent.
func question(t *testing.T, list []array.Value) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := frames.WriteQuestion(&out, 1, frames.Offer{Session: "s", Seq: 3}, 2, list); err != nil {
		t.Fatal(err)
	}
	h, err := frames.ParseHeader([frames.HeaderSize]byte(out.Bytes()))
	if err != nil || h.Version != 1 || h.Type != frames.GetLoss || int(h.Size) != out.Len()-frames.HeaderSize {
		t.Fatalf("%+v of %d bytes, %v", h, out.Len(), err)
	}
	message := out.Bytes()[frames.HeaderSize:]
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if n < 0 || size < 0 {
			t.Fatal("no message")
		}
		if number == 4 {
			value, _ := protowire.ConsumeBytes(message[n:])
			return value
		}
		message = message[n+size:]
	}
	t.Fatal("no weights")
	return nil
}

func TestWeights(t *testing.T) {
	want := weights()
	got, err := frames.ParseWeights(question(t, want))
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %v", got, err)
	}
	for i, j := range []int{2, 1, 0} { // by name
		data := make([]byte, got[i].Bytes())
		if err := got[i].ReadInto(data); err != nil || got[i].Name != want[j].Name || got[i].DType != want[j].DType || !cmp.Equal(got[i].Shape, want[j].Shape) || string(data) != string(want[j].Data) {
			t.Errorf("%v, %v, want %v", got[i], err, want[j])
		}
	}
	twice := question(t, append(want, want[0]))
	short := question(t, []array.Value{{Name: "w", DType: merge.Float32, Shape: []int64{2}, Data: []byte{1}}})
	for name, tt := range map[string]struct {
		message []byte
		want    string
	}{
		"one name twice": {twice, `"w" is there twice`},
		"too short":      {short, "bytes of its shape"},
		"cut off":        {twice[:100], "unexpected EOF"},
		"another type":   {bytes.ReplaceAll(short, []byte("float32"), []byte("float3O")), "no type that can be merged"},
		"big-endian":     {bytes.ReplaceAll(short, []byte("float32"), []byte(">f44444")), "no type that can be merged"},
	} {
		if _, err := frames.ParseWeights(tt.message); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMessages holds that any message is read within the bounds or refused in one line.
func FuzzMessages(f *testing.F) {
	b, err := hex.DecodeString(opening)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	var out bytes.Buffer
	if err := frames.WriteQuestion(&out, 2, frames.Offer{}, 0, weights()); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes()[frames.HeaderSize+4:])
	f.Fuzz(func(t *testing.T, message []byte) {
		list, err := frames.ParseWeights(message)
		for _, a := range list {
			if a.Bytes() < 0 || a.Bytes() > int64(len(message)) || a.Name == "" || len(a.Shape) > array.MaxDims {
				t.Errorf("took %v", a)
			}
		}
		_, openingErr := frames.ParseOpening(message)
		_, offerErr := frames.ParseOffer(message)
		_, measuredErr := frames.ParseMeasured(message)
		_, killErr := frames.ParseKill(message)
		for _, err := range []error{err, openingErr, offerErr, measuredErr, killErr} {
			if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("not one line: %q", err)
			}
		}
	})
}
