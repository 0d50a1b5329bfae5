package membership

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/internal/p2p"
)

// FuzzBundle: a bundle that is taken is of the swarm, and names SNs that can be dialled.
func FuzzBundle(f *testing.F) {
	for _, b := range []bundle{{SwarmID: "s", SNs: []string{"id@h:1"}}, {SwarmID: "s", SNs: []string{"@", "id@h:1", "id@[::1]:1"}}, {SwarmID: "t"}} {
		var w bytes.Buffer
		if err := p2p.WriteMessage(&w, b); err != nil {
			f.Fatal(err)
		}
		f.Add(w.Bytes())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := readBundle(bytes.NewReader(raw), "s")
		if err != nil {
			return
		}
		if b.SwarmID != "s" || len(b.SNs) == 0 {
			t.Fatalf("%+v was taken", b)
		}
		for _, a := range b.SNs {
			if _, _, err := consensus.ParseAddress(a); err != nil {
				t.Fatal(err)
			}
		}
	})
}
