package fetch

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/p2p"
)

// FuzzRequest reads a request as the server of models does: what it says again is the same.
func FuzzRequest(f *testing.F) {
	for _, r := range []Request{{Kind: "model", Contract: "c", Run: 1, Round: 2, Digest: "d", State: "s", Offset: 3}, {Offset: -1}} {
		var b bytes.Buffer
		if err := p2p.WriteMessage(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte{0, 0, 0x10, 1, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, again Request
		if p2p.ReadMessage(bytes.NewReader(b), maxHead, &first) != nil {
			return
		}
		var out bytes.Buffer
		if err := p2p.WriteMessage(&out, first); err != nil {
			t.Fatal(err)
		}
		if err := p2p.ReadMessage(&out, maxHead*8, &again); err != nil || first != again { // Escapes are longer than what they stand for.
			t.Errorf("%+v became %+v, %v", first, again, err)
		}
	})
}

// FuzzReply reads a reply and what follows it: no more is written than is announced, and that is at most what is allowed.
func FuzzReply(f *testing.F) {
	for _, r := range []reply{{Size: 3}, {Size: -1}, {Size: 1 << 62}, {Error: "no\n\x1b[0m"}} {
		var b bytes.Buffer
		if err := p2p.WriteMessage(&b, r); err != nil {
			f.Fatal(err)
		}
		f.Add(append(b.Bytes(), "abcdef"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 10
		var dst bytes.Buffer
		err := takeReply(bytes.NewReader(b), most, &dst, func(time.Time) error { return nil })
		var refused *p2p.RefusedError
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
	var reply reply
	if p2p.ReadMessage(r, maxHead, &reply) != nil {
		return 0
	}
	return max(0, r.Len()-int(reply.Size))
}
