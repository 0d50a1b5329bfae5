package session

import (
	"bytes"
	"fmt"
	"testing"
)

func TestSameModel(t *testing.T) {
	for _, size := range []int{0, 1, probeSize, probeSize + 1, chunkSize, chunkSize + 1, 3*chunkSize + 5} {
		a := bytes.Repeat([]byte{7}, size)
		if same, err := sameModel(bytes.NewReader(a), bytes.NewReader(append(bytes.Clone(a), 1)), int64(size)); !same || err != nil {
			t.Errorf("%d bytes: same is %v, %v", size, same, err)
		}
		for _, at := range []int{0, size / 3, size - 1} {
			if size == 0 {
				continue
			}
			b := bytes.Clone(a)
			b[at]++
			if same, err := sameModel(bytes.NewReader(a), bytes.NewReader(b), int64(size)); same || err != nil {
				t.Errorf("%d bytes, another one at %d: same is %v, %v", size, at, same, err)
			}
		}
		if size > 0 {
			if _, err := sameModel(bytes.NewReader(a), bytes.NewReader(a[:size-1]), int64(size)); err == nil {
				t.Errorf("%d bytes: a file that is too short is no error", size)
			}
		}
	}
}

// BenchmarkSameModel: what is compared before an answer to a Sync, beside the merge.
func BenchmarkSameModel(b *testing.B) {
	const size = 256 << 20
	a := make([]byte, size)
	for _, tt := range []struct {
		name  string
		other []byte
	}{{"equal", bytes.Clone(a)}, {"trained", bytes.Repeat([]byte{1}, size)}} {
		b.Run(fmt.Sprintf("%s-%dMiB", tt.name, size>>20), func(b *testing.B) {
			for b.Loop() {
				if same, err := sameModel(bytes.NewReader(a), bytes.NewReader(tt.other), size); err != nil || same != (tt.name == "equal") {
					b.Fatal(same, err)
				}
			}
		})
	}
}
