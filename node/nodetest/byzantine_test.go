package nodetest_test

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
	"github.com/swarmd/swarmd/node/nodetest"
)

// Hand-written digits, split evenly: 1,797 rows of 64 pixels from 0 to 16 and
// the class, one byte each (the UCI set that scikit-learn brings,
// CC BY 4.0). Every peer trains a softmax regression.
const (
	digitPixels = 64
	digitKinds  = 10
	digitParams = (digitPixels + 1) * digitKinds
	digitPeers  = 11
	digitLiars  = 2
	digitRounds = 10
	digitTrain  = 1100 // the other 697 are for testing
)

// robust are the methods that two liars among eleven must not harm.
var robust = []string{"coordmedian", "trimmedmean", "geomedian", "krum(f=2)", "multikrum(f=2)", "bulyan(f=2)"}

// attacks make what a liar sends from what it has learnt and the model that it
// started from.
var attacks = map[string]func(rng *rand.Rand, learnt, base []float32) []float32{
	"noise": func(rng *rand.Rand, learnt, _ []float32) []float32 {
		return mapped(learnt, func(int) float64 { return 10 * rng.NormFloat64() })
	},
	"sign": func(_ *rand.Rand, learnt, base []float32) []float32 {
		return mapped(learnt, func(k int) float64 { return float64(base[k]) - 10*float64(learnt[k]-base[k]) })
	},
	"huge": func(rng *rand.Rand, learnt, _ []float32) []float32 {
		return mapped(learnt, func(int) float64 { return 1e30 * rng.NormFloat64() })
	},
}

func mapped(like []float32, f func(k int) float64) []float32 {
	out := make([]float32, len(like))
	for k := range out {
		out[k] = float32(f(k))
	}
	return out
}

// digits are the data in an order of their own for each seed.
type digits struct {
	x [][digitPixels]float64
	y []int
}

func readDigits(t testing.TB, seed uint64) digits {
	t.Helper()
	f, err := os.Open("testdata/digits.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	n := len(b) / (digitPixels + 1)
	d := digits{x: make([][digitPixels]float64, n), y: make([]int, n)}
	for i, from := range rand.New(rand.NewPCG(seed, 1)).Perm(n) {
		row := b[from*(digitPixels+1):][:digitPixels+1]
		for p := range digitPixels {
			d.x[i][p] = float64(row[p]) / 16
		}
		d.y[i] = int(row[digitPixels])
	}
	return d
}

// scores sets out to the log-odds of the classes, up to a constant.
func scores(model []float32, x *[digitPixels]float64, out *[digitKinds]float64) {
	for c := range digitKinds {
		w := model[c*(digitPixels+1):][:digitPixels+1]
		s := float64(w[digitPixels])
		for p, v := range x {
			s += float64(w[p]) * v
		}
		out[c] = s
	}
}

// learn makes two passes of stochastic gradient descent over a peer's rows.
func (d digits) learn(model []float32, peer int) []float32 {
	m := append([]float32(nil), model...)
	var s [digitKinds]float64
	for range 2 {
		for i := peer; i < digitTrain; i += digitPeers {
			scores(m, &d.x[i], &s)
			top, sum := math.Inf(-1), 0.0
			for _, v := range s {
				top = max(top, v)
			}
			for c := range s {
				s[c] = math.Exp(s[c] - top)
				sum += s[c]
			}
			for c := range s {
				g := s[c] / sum
				if c == d.y[i] {
					g--
				}
				w := m[c*(digitPixels+1):][:digitPixels+1]
				for p, v := range d.x[i] {
					w[p] -= float32(0.05 * g * v)
				}
				w[digitPixels] -= float32(0.05 * g)
			}
		}
	}
	return m
}

// accuracy is in points of a hundred, over the rows that nobody trains on.
func (d digits) accuracy(model []float32) float64 {
	var s [digitKinds]float64
	right := 0
	for i := digitTrain; i < len(d.y); i++ {
		scores(model, &d.x[i], &s)
		best := 0
		for c := range s {
			if s[c] > s[best] {
				best = c
			}
		}
		if best == d.y[i] {
			right++
		}
	}
	return 100 * float64(right) / float64(len(d.y)-digitTrain)
}

// sends is what a peer hands in after a round of training on base.
func (d digits) sends(rng *rand.Rand, attack string, peer int, base []float32) []float32 {
	learnt := d.learn(base, peer)
	if attack == "" || peer < digitPeers-digitLiars {
		return learnt
	}
	return attacks[attack](rng, learnt, base)
}

// trained returns the accuracy after some rounds with this method, merged in
// memory.
func trained(t *testing.T, method, attack string, seed uint64) float64 {
	t.Helper()
	m, err := merge.ParseMethod(method)
	if err != nil {
		t.Fatal(err)
	}
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{digitParams}}})
	if err != nil {
		t.Fatal(err)
	}
	d := readDigits(t, seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	base, weights := make([]float32, digitParams), make([]uint32, digitPeers)
	for range digitRounds {
		models := make([][]byte, digitPeers)
		for i := range models {
			models[i] = encode32(d.sends(rng, attack, i, base))
			weights[i] = 1
		}
		model, _, err := mergetest.Merge(m, l, weights, models, encode32(base), nil)
		if err != nil {
			t.Fatal(err)
		}
		base = decode32(model)
	}
	return d.accuracy(base)
}

func encode32(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func decode32(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for k := range x {
		x[k] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:]))
	}
	return x
}

// matrix holds every method to its own clean run, by the mean of three seeds.
func matrix(t *testing.T, points func(t *testing.T, method, attack string, seed uint64) float64) {
	t.Helper()
	mean := func(method, attack string) float64 {
		var sum float64
		for seed := range uint64(3) {
			sum += points(t, method, attack, seed)
		}
		return sum / 3
	}
	for _, method := range append([]string{"mean"}, robust...) {
		clean := mean(method, "")
		line := fmt.Sprintf("%-15s clean %.1f", method, clean)
		if clean < 88 {
			t.Errorf("%s: %.1f points without any liar", method, clean)
		}
		for _, attack := range []string{"noise", "sign", "huge"} {
			got := mean(method, attack)
			line += fmt.Sprintf(", %s %.1f", attack, got)
			if harmed := got < clean-2; harmed != (method == "mean") {
				t.Errorf("%s: %.1f points with %s, %.1f without", method, got, attack, clean)
			}
		}
		t.Log(line)
	}
}

// TestLiarsDoNotHarmRobustMethods: 11 peers, of which two send noise, ten times
// the update with its sign turned, or huge values. Each robust method ends within
// two points of its own clean run; the mean does not.
func TestLiarsDoNotHarmRobustMethods(t *testing.T) { matrix(t, trained) }

// swarmed is trained by a whole swarm in virtual time, which holds every round
// to the merge in memory.
func swarmed(t *testing.T, method, attack string, seed uint64) (points float64) {
	t.Helper()
	d := readDigits(t, seed)
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.New(t, nodetest.Config{
			SLs: digitPeers, Steps: digitRounds, Elements: digitParams,
			Program: func(i int, p *nodetest.Program) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				p.Method, p.Init, p.Delta = method, 0, 0
				p.Learn = func(step int, model []byte) []byte {
					if step == 1 {
						clear(model) // All begin at zero, as in memory.
					}
					return encode32(d.sends(rng, attack, i, decode32(model)))
				}
			},
		})
		s.Wait()
		points = d.accuracy(decode32(s.Run("sl-0").Model()))
	})
	return points
}

// TestSwarmsWithLiars is the same through a few whole swarms, of one seed.
func TestSwarmsWithLiars(t *testing.T) {
	for method, attack := range map[string]string{"CoordMedian": "huge", "geomedian": "sign", "Bulyan(F=2)": "noise"} {
		t.Run(method, func(t *testing.T) {
			clean, got := trained(t, method, "", 0), swarmed(t, method, attack, 0)
			t.Logf("%.1f points with %s, %.1f without", got, attack, clean)
			if got < clean-3 {
				t.Errorf("%.1f points with %s, %.1f without", got, attack, clean)
			}
		})
	}
}

// TestSwarmsWithLiarsForMinutes is all of TestLiarsDoNotHarmRobustMethods
// through whole swarms.
func TestSwarmsWithLiarsForMinutes(t *testing.T) {
	long(t)
	matrix(t, swarmed)
}
