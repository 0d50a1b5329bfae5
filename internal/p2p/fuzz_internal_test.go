package p2p

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// FuzzFetchRequest reads a request as the server of models does: what it says again is the same.
func FuzzFetchRequest(f *testing.F) {
	for _, r := range []FetchRequest{{Kind: "model", Contract: "c", Run: 1, Round: 2, Digest: "d", State: "s", Offset: 3}, {Offset: -1}} {
		var b bytes.Buffer
		if err := WriteMessage(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte{0, 0, 0x10, 1, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, again FetchRequest
		if ReadMessage(bytes.NewReader(b), maxFetchHead, &first) != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteMessage(&out, first); err != nil {
			t.Fatal(err)
		}
		if err := ReadMessage(&out, maxFetchHead*8, &again); err != nil || first != again { // Escapes are longer than what they stand for.
			t.Errorf("%+v became %+v, %v", first, again, err)
		}
	})
}

// FuzzFetchReply reads a reply and what follows it: no more is written than is announced, and that is at most what is allowed.
func FuzzFetchReply(f *testing.F) {
	for _, r := range []fetchReply{{Size: 3}, {Size: -1}, {Size: 1 << 62}, {Error: "no\n\x1b[0m"}} {
		var b bytes.Buffer
		if err := WriteMessage(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(append(b.Bytes(), "abcdef"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 10
		var dst bytes.Buffer
		err := takeReply(bytes.NewReader(b), most, &dst, func(time.Time) error { return nil })
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Reason != worded(refused.Reason) {
			t.Errorf("unsafe reason %q", refused.Reason)
		}
		if dst.Len() > most || dst.Len() > len(b) || err == nil && !bytes.HasSuffix(b[:len(b)-rest(b)], dst.Bytes()) {
			t.Errorf("%d bytes of %x were taken, %v", dst.Len(), b, err)
		}
	})
}

// rest is how many bytes follow what a whole reply announces.
func rest(b []byte) int {
	r := bytes.NewReader(b)
	var reply fetchReply
	if ReadMessage(r, maxFetchHead, &reply) != nil {
		return 0
	}
	return max(0, r.Len()-int(reply.Size))
}

// FuzzBinding has somebody show that a connection belongs to one that is open: only who knows both of that one's proofs can.
func FuzzBinding(f *testing.F) {
	parent := &conn{provenKey: &provenKey{exporter: bytes.Repeat([]byte{1}, exporterLen)}}
	other := &conn{provenKey: &provenKey{exporter: bytes.Repeat([]byte{2}, exporterLen)}}
	mine := bytes.Repeat([]byte{3}, exporterLen)
	name, proof := parent.binding(bindName, nil), parent.binding(bindDialler, mine)
	right := append(name[:], proof[:]...)
	f.Add(right)
	for _, v := range []binding{other.binding(bindDialler, mine), parent.binding(bindAcceptor, mine), parent.binding(bindDialler, nil), name} {
		f.Add(append(name[:], v[:]...))
	}
	f.Add(right[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		name, theirs, err := readBinding(bytes.NewReader(b))
		if err != nil {
			if len(b) >= len(right) || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes: %v", len(b), err)
			}
			return
		}
		shows := name.equal(parent.binding(bindName, nil)) && theirs.equal(parent.binding(bindDialler, mine))
		if shows != bytes.HasPrefix(b, right) {
			t.Errorf("%x shows the parent: %v", b, shows)
		}
	})
}
