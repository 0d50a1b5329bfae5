package merge

import "math"

// fedYogi is Yogi on the mean update (Reddi et al. 2021, algorithm 2): fedadam
// but for
//
//	v ← v - (1-beta2)·Δ²·sign(v - Δ²)
var fedYogi = spec{
	name:   "fedyogi",
	doc:    "Yogi step from the last model: Adam whose rates change more slowly",
	params: adaptive,
	base:   true,
	slots:  2,
	leaf:   meanOf,
	step:   func(p values) step { return step{fedYogiStep[float32](p), fedYogiStep[float64](p)} },
}

//nolint:unconvert // A conversion rounds, so nothing is fused.
func fedYogiStep[F float32 | float64](p values) func(*stepBlock[F]) {
	lr, beta1, tau := F(p[0]), F(p[1]), F(p[3])
	rest1, rest2 := F(1-p[1]), F(1-p[2])
	return func(b *stepBlock[F]) {
		m, v := b.state[0], b.state[1]
		for i := range b.next {
			delta := b.mean[i] - b.base[i]
			m[i] = F(beta1*m[i]) + F(rest1*delta)
			square := F(delta * delta)
			switch change := F(rest2 * square); {
			case v[i] > square:
				v[i] -= change
			case v[i] < square:
				v[i] += change
			}
			root := F(math.Sqrt(float64(v[i])))
			b.next[i] = b.base[i] + F(F(lr*m[i])/F(root+tau))
		}
	}
}
