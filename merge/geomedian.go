package merge

import (
	"math"
	"slices"
)

// Weiszfeld's algorithm ends at a step shorter than stepEnd, or after
// maxIterations.
const (
	stepEnd       = 1e-6
	maxIterations = 200
)

// geoMedian is the weighted geometric median of whole models: the point of
// least weighted sum of distances (Weiszfeld 1937; Vardi and Zhang 2000; for
// models Pillutla et al. 2022). merge/DESIGN.md derives what is computed here.
var geoMedian = spec{
	name:      "geomedian",
	doc:       "weighted geometric median of whole models",
	distances: true,
	leaf: func(_ values, in Contributors) leafFunc {
		p := pairs{n: len(in.Weights), d: in.Distances}
		centre := p.medoid(in.Weights)
		return average(in.Weights, newWeiszfeld(p, in.Weights, centre).run(centre), centre)
	},
}

// weiszfeld holds centres as coefficients: y = Σ λ_i x_i with Σ λ_i = 1. gram
// holds the products (x_i - x_p)·(x_j - x_p) around the medoid p, from which
// every length follows without cancelling against far contributors.
type weiszfeld struct {
	n       int
	gram    []float64 // n × n
	weights []float64
	sums    []float64 // gram × λ
	sizes   []float64 // the same of absolute values: the scale of rounding errors
	step    []float64 // λ' - λ
}

func newWeiszfeld(p pairs, weights []uint32, centre int) *weiszfeld {
	n := p.n
	z := &weiszfeld{
		n: n, gram: make([]float64, n*n), weights: make([]float64, n),
		sums: make([]float64, n), sizes: make([]float64, n), step: make([]float64, n),
	}
	for i := range n {
		z.weights[i] = float64(weights[i])
		for j := range n {
			z.gram[i*n+j] = product(p.at(i, centre), p.at(j, centre), p.at(i, j))
		}
	}
	return z
}

// product returns a·b for two vectors from |a|², |b|² and |a-b|². Where
// rounding beside a far vector leaves nothing of the product it returns 0, as
// for a right angle. No product exceeds that of the lengths.
func product(a, b, ab float64) float64 {
	g := (a - ab + b) / 2
	if math.Abs(g) <= 4*epsilon*(a+b+ab) {
		return 0
	}
	most := math.Sqrt(a) * math.Sqrt(b)
	return min(max(g, -most), most)
}

// epsilon is half the distance from 1 to the next float64.
const epsilon = 0x1p-53

// run returns the final coefficients. It starts at the mean. A liar at the end
// of the number range can drag the mean so far away, with less than half of the
// weight, that the iterations run out on the way back. Then run starts again at
// the medoid, which is an honest model.
func (z *weiszfeld) run(centre int) []float64 {
	var total float64
	for _, w := range z.weights {
		total += w
	}
	begin := make([]float64, z.n)
	for i, w := range z.weights {
		begin[i] = w / total
	}
	end, settled := z.from(begin)
	if !settled {
		clear(begin)
		begin[centre] = 1
		end, _ = z.from(begin)
	}
	return end
}

// from iterates, and reports whether that came to an end by itself.
func (z *weiszfeld) from(begin []float64) (end []float64, settled bool) {
	now, next, before := slices.Clone(begin), make([]float64, z.n), slices.Clone(begin)
	var steps [3]float64 // the last ones, newest first
	for k := range maxIterations {
		z.move(now, next)
		steps[2], steps[1], steps[0] = steps[1], steps[0], z.length(next, now)
		back := z.length(next, before)
		before, now, next = now, next, before
		if steps[0] < stepEnd || k >= 2 && (same(steps[0], steps[1]) && same(steps[1], steps[2]) || back < stepEnd) {
			return now, true
		}
	}
	return now, false
}

func same(a, b float64) bool { return math.Abs(a-b) <= 1e-12*a }

// length returns the distance of two centres.
func (z *weiszfeld) length(a, b []float64) float64 {
	for i := range z.step {
		z.step[i] = a[i] - b[i]
	}
	var sum float64
	for i, d := range z.step {
		var row float64
		for j, g := range z.gram[i*z.n : (i+1)*z.n] {
			row += float64(g * z.step[j])
		}
		sum += float64(d * row)
	}
	return math.Sqrt(max(0, sum))
}

// move sets next to the centre after now. A contributor that coincides with
// the centre has no direction: Vardi and Zhang weigh its pull against that of
// the others.
func (z *weiszfeld) move(now, next []float64) {
	square, size := z.multiply(now)
	var pull, here float64
	at := -1
	for i, w := range z.weights {
		own := z.gram[i*z.n+i]
		d := own - 2*z.sums[i] + square
		noise := 16 * float64(z.n) * epsilon * (own + 2*z.sizes[i] + size)
		next[i] = 0
		if d > noise {
			next[i] = w / math.Sqrt(d)
			pull += next[i]
			continue
		}
		here += w
		if at < 0 || w > z.weights[at] {
			at = i
		}
	}
	if pull == 0 {
		copy(next, now)
		return
	}
	for i := range next {
		next[i] /= pull
	}
	if at < 0 {
		return
	}
	stay := 1.0
	if r := pull * z.length(next, now); r > here {
		stay = here / r
	}
	for i := range next {
		next[i] = float64(next[i] * (1 - stay))
	}
	next[at] += stay
}

// multiply sets sums and sizes, and returns |y - x_p|² with its size.
func (z *weiszfeld) multiply(y []float64) (square, size float64) {
	for i := range z.n {
		z.sums[i], z.sizes[i] = 0, 0
		for j, g := range z.gram[i*z.n : (i+1)*z.n] {
			v := float64(g * y[j])
			z.sums[i] += v
			z.sizes[i] += math.Abs(v)
		}
		square += float64(y[i] * z.sums[i])
		size += float64(math.Abs(y[i]) * z.sizes[i])
	}
	return square, size
}
