package p2p

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

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
