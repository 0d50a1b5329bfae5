package bridge_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/internal/bridge"
)

// BenchmarkTurn is what a round costs in the bridge beside the bytes of the model: the file that is merged into is taken back, and published.
func BenchmarkTurn(b *testing.B) {
	for _, size := range []int64{1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			dir, err := os.MkdirTemp("/dev/shm", "turn-")
			if err != nil {
				b.Skip(err)
			}
			b.Cleanup(func() { _ = os.RemoveAll(dir) })
			s, err := bridge.CreateSlots(bridge.Place{Dir: filepath.Join(dir)}, size, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				s.Merging()
				s.Merged("contract/1-1-digest")
				s.Commit()
			}
		})
	}
}
