package weightcap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/planner/weightcap"
	"github.com/swarmd/swarmd/consensus/state"
)

func TestApply(t *testing.T) {
	tests := []struct {
		weights []uint32
		ppm     uint32
		want    []uint32
	}{
		{[]uint32{50, 30, 20}, 0, []uint32{50, 30, 20}},
		{[]uint32{50, 30, 20}, 500_000, []uint32{50, 30, 20}},
		{[]uint32{94, 1, 1, 1}, 400_000, []uint32{9000, 4500, 4500, 4500}},
		{[]uint32{100, 1}, 500_000, []uint32{9000, 9000}},
		{[]uint32{100, 0, 1}, 500_000, []uint32{9000, 0, 9000}},
		{[]uint32{100, 1}, 400_000, []uint32{100, 1}}, // two can't both keep 0.4
		{[]uint32{60, 60, 10, 10}, 300_000, []uint32{9000, 9000, 6000, 6000}},
		{[]uint32{0, 0}, 500_000, []uint32{0, 0}},
	}
	for _, tt := range tests {
		if got := weightcap.Apply(tt.weights, tt.ppm); !slices.Equal(got, tt.want) {
			t.Errorf("Apply(%v, %d) = %v, want %v", tt.weights, tt.ppm, got, tt.want)
		}
	}
}

// TestNobodyIsAboveTheCap: nobody is above it, zeros stay, and heavier never gets less than lighter.
func TestNobodyIsAboveTheCap(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		weights, samples := make([]uint32, 1+rng.IntN(12)), rng.IntN(2) == 0
		heavy := uint64(0)
		for i := range weights {
			weights[i] = uint32(rng.IntN(101))
			if samples {
				weights[i] = uint32(rng.IntN(state.MaxSamples + 1))
			}
			if rng.IntN(4) == 0 {
				weights[i] = uint32(rng.IntN(3))
			}
			if weights[i] > 0 {
				heavy++
			}
		}
		ppm := 1 + uint32(rng.IntN(state.PPM))
		if heavy > 0 && rng.IntN(2) == 0 {
			ppm = uint32((state.PPM+heavy-1)/heavy) + uint32(rng.IntN(3)) // just above what so many can keep
		}
		got := weightcap.Apply(weights, ppm)
		if uint64(ppm)*heavy < state.PPM {
			if !slices.Equal(got, weights) {
				t.Fatalf("Apply(%v, %d) = %v changes what can't be kept", weights, ppm, got)
			}
			continue
		}
		sum := uint64(0)
		for _, w := range got {
			sum += uint64(w)
		}
		most := uint32(state.MaxPlannedWeight)
		if slices.Equal(got, weights) {
			most = state.MaxSamples
		}
		for i, w := range got {
			if uint64(w)*state.PPM > uint64(ppm)*sum || w > most || (w == 0) != (weights[i] == 0) {
				t.Fatalf("Apply(%v, %d) = %v: weight %d of %d", weights, ppm, got, w, sum)
			}
			for j := range got {
				if weights[i] > weights[j] && got[i] < got[j] {
					t.Fatalf("Apply(%v, %d) = %v turns the order", weights, ppm, got)
				}
			}
		}
	}
}
