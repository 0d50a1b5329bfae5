package bench_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/bench"
)

func TestParseSize(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		bad  bool
	}{
		{"100MiB", 100 << 20, false},
		{"1GiB", 1 << 30, false},
		{"64MB", 64_000_000, false},
		{"1.5KiB", 1536, false},
		{"1023", 1020, false},
		{"8B", 8, false},
		{"3", 0, true},
		{"", 0, true},
		{"-1MiB", 0, true},
		{"NaN", 0, true},
		{"1e30GiB", 0, true},
		{"65GiB", 0, true},
		{"ten", 0, true},
	}
	for _, tt := range tests {
		got, err := bench.ParseSize(tt.in)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("ParseSize(%q) = %d, %v", tt.in, got, err)
		}
	}
}

func TestParseLink(t *testing.T) {
	for in, want := range map[string]int64{
		"200mbit": 200_000_000, "1gbit": 1_000_000_000, "1.5Mbit": 1_500_000, "2000kbit": 2_000_000,
		"": 0, "200": 0, "0mbit": 0, "-1gbit": 0, "NaNmbit": 0, "1000gbit": 0, "mbit": 0,
	} {
		if got, err := bench.ParseLink(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseLink(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestResultHasExactlyThePromisedKeys(t *testing.T) {
	data, err := json.Marshal(bench.Result{})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	var got []string
	for k := range m {
		got = append(got, k)
	}
	slices.Sort(got)
	want := strings.Fields("bytes checked_against cpu_seconds efficiency model_seconds peak_rss_anon_bytes peak_rss_bytes peers round_seconds_median round_seconds_p95 rounds sent_bytes_per_peer tls_bytes_per_second")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestTLSSpeed(t *testing.T) {
	speed, err := bench.TLSSpeed(t.Context(), 50*time.Millisecond)
	if err != nil || speed < 1<<20 {
		t.Errorf("TLSSpeed: %.0f bytes per second, %v", speed, err)
	}
}
