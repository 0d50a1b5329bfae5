package bench

import (
	"strings"
	"testing"
)

// TestTheoryOfAWireType: half of the bytes take half of the time.
func TestTheoryOfAWireType(t *testing.T) {
	for text, want := range map[string]float64{"": 3, "mean": 3, "fedadam(lr=0.1)": 3, "mean(wire=bfloat16)": 1.5, "krum(f=0,wire=float16)": 1.5} {
		m, err := method(Config{Method: text, Peers: 4})
		if err != nil {
			t.Fatal(err)
		}
		r := Result{Peers: 4, Bytes: 200, WireBytes: wireBytes(m, 200), LinkBytesPerSecond: 100}
		if got := r.modelSeconds(1e9); got != want {
			t.Errorf("%s: %g s over the link, want %g", text, got, want)
		}
		r.LinkBytesPerSecond = 0
		if got := r.modelSeconds(100); got != 4*want {
			t.Errorf("%s: %g s over one TLS connection, want %g", text, got, 4*want)
		}
	}
}

func TestMethodsThatCanNotBeTimed(t *testing.T) {
	for text, want := range map[string]string{"maen": "maen", "mean(wire=int8)": "bfloat16 or float16", "krum": "needs 5 peers"} {
		if _, err := method(Config{Method: text, Peers: 4}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
