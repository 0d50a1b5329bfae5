package leafio

import (
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

func TestBuffersAreAsLongAsTheModelsLeaves(t *testing.T) {
	small, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	for size := merge.MinLeafSize; size <= merge.MaxLeafSize; size *= 2 {
		l := small.WithLeafSize(size)
		for range 3 { // from Go's memory and from what was put back
			b, f := Room(l), FrameRoom(l)
			if len(b) != size || len(*f) != 0 || cap(*f) != wire.HeaderSize+size {
				t.Errorf("leaves of %d bytes: room of %d, frame of %d with room for %d", size, len(b), len(*f), cap(*f))
			}
			*f = (*f)[:wire.HeaderSize+1]
			Free(b)
			FreeFrame(f)
		}
	}
}
