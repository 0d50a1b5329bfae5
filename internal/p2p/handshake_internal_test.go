package p2p

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/libp2p/go-libp2p/core/crypto"
)

func testHello(tb testing.TB, exporter []byte, s side) hello {
	tb.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	h, err := newHello(key, exporter, s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func TestHelloIsGoodForOneConnectionAndSideOnly(t *testing.T) {
	exporter := bytes.Repeat([]byte{1}, exporterLen)
	h := testHello(t, exporter, clientSide)
	back, err := readHello(bytes.NewReader(h.marshal()))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := back.verify(exporter, clientSide); err != nil {
		t.Fatal(err)
	}
	victim := testHello(t, exporter, clientSide)
	tests := map[string]func(h *hello, exporter *[]byte, s *side){
		"another connection": func(_ *hello, e *[]byte, _ *side) { *e = bytes.Repeat([]byte{2}, exporterLen) },
		"reflected":          func(_ *hello, _ *[]byte, s *side) { *s = serverSide },
		"another swarm":      func(h *hello, _ *[]byte, _ *side) { h.swarmID = strings.Repeat("b", 32) },
		"another's key":      func(h *hello, _ *[]byte, _ *side) { h.publicKey = victim.publicKey },
		"no signature":       func(h *hello, _ *[]byte, _ *side) { h.signature = nil },
		"no key":             func(h *hello, _ *[]byte, _ *side) { h.publicKey = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			h, e, s := back, exporter, clientSide
			change(&h, &e, &s)
			if _, _, err := h.verify(e, s); err == nil {
				t.Error("verified")
			}
		})
	}
}

func TestOversizeHelloIsRefusedUnread(t *testing.T) {
	r := bytes.NewReader(append([]byte{0xff, 0xff}, make([]byte, 1<<16)...))
	if _, err := readHello(r); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("oversize hello: %v", err)
	}
	if r.Len() != 1<<16 {
		t.Error("the body was read")
	}
}

func FuzzHello(f *testing.F) {
	f.Add(testHello(f, make([]byte, exporterLen), clientSide).marshal()[2:])
	f.Add([]byte{helloVersion, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		if got := h.marshal()[2:]; !bytes.Equal(got, b) {
			t.Errorf("parse then marshal: %x, want %x", got, b)
		}
		if _, _, err := h.verify(make([]byte, exporterLen), serverSide); err == nil {
			t.Error("a made-up hello verified")
		}
	})
}

func FuzzVerdict(f *testing.F) {
	f.Add("wrong role\nforged log line", 3)
	f.Fuzz(func(t *testing.T, reason string, _ int) {
		err := readVerdict(bytes.NewReader(marshalVerdict(errors.New(reason))))
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Fatalf("refusal became %v", err)
		}
		if len(refused.Reason) > maxReason || !utf8.ValidString(refused.Reason) || strings.ContainsAny(refused.Reason, "\n\r\x1b") {
			t.Errorf("unsafe reason %q", refused.Reason)
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'h', 'i'}, 10)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit = max(0, min(limit, 1<<20))
		got, err := ReadFrame(bytes.NewReader(b), limit)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteFrame(&out, got); err != nil {
			t.Fatal(err)
		}
		if len(got) > limit || !bytes.HasPrefix(b, out.Bytes()) {
			t.Errorf("frame %x of %x with limit %d", got, b, limit)
		}
	})
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	want := FetchRequest{Kind: "model", Contract: "c", Run: 1, Round: 2, Digest: "d", Offset: 3}
	if err := WriteMessage(&b, want); err != nil {
		t.Fatal(err)
	}
	var got FetchRequest
	if err := ReadMessage(&b, 1000, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := ReadMessage(&b, 1000, &got); err != io.EOF { //nolint:errorlint // the contract is io.EOF itself
		t.Errorf("end of stream: %v", err)
	}
}
