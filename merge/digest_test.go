package merge_test

import (
	"math/rand/v2"
	"testing"

	"lukechampine.com/blake3"

	"github.com/swarmd/swarmd/merge"
)

func TestSumIsBLAKE3(t *testing.T) {
	b := make([]byte, 2*merge.MaxLeafSize)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	const step = 16 << 10
	for n := 0; n <= len(b); n += step {
		for _, off := range []int{-1, 0, 1, 1024, 1025} {
			if m := n + off; m >= 0 && m <= len(b) && merge.Sum(b[:m]) != blake3.Sum256(b[:m]) {
				t.Errorf("digest of %d bytes differs", m)
			}
		}
	}
}
