package bench_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/bench"
)

func TestPeersThatCanBeTimed(t *testing.T) {
	for peers, want := range map[int]string{0: "--peers must be 1 to 128", 129: "--peers must be 1 to 128", 128: "mean of nothing"} {
		cfg := bench.Config{Peers: peers, SNs: 3, Rounds: 1, Size: 4, Method: "mean of nothing"} // What is judged next.
		if _, err := bench.Merge(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d peers: got %v, want %q", peers, err, want)
		}
	}
}
