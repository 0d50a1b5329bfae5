package p2p

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
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

func FuzzReadHello(f *testing.F) {
	good := testHello(f, make([]byte, exporterLen), clientSide).marshal()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{0xff, 0xff, helloVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if err == nil && !bytes.HasPrefix(b, h.marshal()) {
			t.Errorf("read %x from %x", h.marshal(), b)
		}
	})
}

func FuzzReadVerdict(f *testing.F) {
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 5, 'n', 'o', '\n', 0x1b, 0xff})
	f.Add([]byte{0xff, 0xff})
	f.Add(marshalVerdict(errors.New(strings.Repeat("\u00e9", maxReason))))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := readVerdict(bytes.NewReader(b))
		var refused *RefusedError
		switch {
		case err == nil && !bytes.HasPrefix(b, []byte{0, 0}):
			t.Errorf("%x was read as consent", b)
		case errors.As(err, &refused) && (len(refused.Reason) > maxReason || !utf8.ValidString(refused.Reason) || strings.ContainsAny(refused.Reason, "\n\r\x1b")):
			t.Errorf("unsafe reason %q", refused.Reason)
		}
	})
}

func FuzzProof(f *testing.F) {
	good, err := proof{chain: [][]byte{{1, 2, 3}, {4}}, signature: []byte{5, 6}}.marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{reauthVersion, 0})
	f.Add([]byte{reauthVersion, 255, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProof(b)
		if err != nil {
			return
		}
		if got, err := p.marshal(); len(b) <= maxProof && (err != nil || !bytes.Equal(got, b)) {
			t.Errorf("parse then marshal: %x, %v, want %x", got, err, b)
		}
		if len(p.chain) > maxProofCerts {
			t.Errorf("%d certificates", len(p.chain))
		}
	})
}

// FuzzTakeProof lets a verifier judge what it gets. Nothing made up may prolong a connection.
func FuzzTakeProof(f *testing.F) {
	verifier, c, nonce, good := proofFixture(f)
	if err := verifier.takeProof(c, good, nonce); err != nil {
		f.Fatalf("a good proof is refused: %v", err)
	}
	leaf, err := parseProof(good)
	if err != nil {
		f.Fatal(err)
	}
	until := c.expiry.expires
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0))
	f.Add([]byte{reauthVersion, 1, 0, 1, 0x30, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := verifier.takeProof(c, b, nonce); err == nil {
			// ECDSA signatures have a twin, and certificates behind the leaf prove nothing; the leaf must be the signed one.
			if p, err := parseProof(b); err != nil || !bytes.Equal(p.chain[0], leaf.chain[0]) {
				t.Errorf("%x was taken", b)
			}
		}
		if !c.expiry.expires.Equal(until) {
			t.Errorf("%x moved the connection's end", b)
		}
	})
}

// proofFixture is a verifier, one of its connections, a nonce that it gave, and the right answer.
func proofFixture(tb testing.TB) (r *renewer, c *conn, nonce, good []byte) {
	tb.Helper()
	authority, err := rpctest.NewAuthority("swarm.learning")
	if err != nil {
		tb.Fatal(err)
	}
	domains, err := authority.Domains()
	if err != nil {
		tb.Fatal(err)
	}
	src, err := authority.Issue("/swarm/sl", time.Hour)
	if err != nil {
		tb.Fatal(err)
	}
	svid, err := src.GetX509SVID()
	if err != nil {
		tb.Fatal(err)
	}
	id, err := identity.ParseID(svid.ID)
	if err != nil {
		tb.Fatal(err)
	}
	nonce = make([]byte, nonceLen)
	exporter := make([]byte, exporterLen)
	c = &conn{expiry: &expiry{}, provenKey: &provenKey{peer: Peer{Identity: id}, us: serverSide, exporter: exporter}}
	p, err := newProof(svid, exporter, clientSide, nonce)
	if err != nil {
		tb.Fatal(err)
	}
	if good, err = p.marshal(); err != nil {
		tb.Fatal(err)
	}
	r = &renewer{source: src, domains: domains, refuse: func(peer.ID) error { return nil }, log: slog.New(slog.DiscardHandler)}
	return r, c, nonce, good
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	type message struct {
		Kind   string
		Offset int64
	}
	want := message{"model", 3}
	if err := WriteMessage(&b, want); err != nil {
		t.Fatal(err)
	}
	var got message
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
