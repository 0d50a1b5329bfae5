package merge

import "math"

// fedAdam is Adam on the mean update (Reddi et al. 2021, "Adaptive federated
// optimization", algorithm 2, which has no bias correction; v starts at 0):
//
//	Δ = mean - base,  m ← beta1·m + (1-beta1)·Δ,  v ← beta2·v + (1-beta2)·Δ²,
//	model = base + lr·m / (√v + tau)
var fedAdam = spec{
	name:   "fedadam",
	doc:    "Adam step from the last model",
	params: adaptive,
	base:   true,
	slots:  2,
	leaf:   meanOf,
	step:   func(p values) step { return step{fedAdamStep[float32](p), fedAdamStep[float64](p)} },
}

// adaptive are the parameters of fedadam and fedyogi: Flower's and the paper's
// names, with the paper's recommendations for the betas and tau.
var adaptive = []param{
	{name: "lr", initial: 0.01, max: 100, above: true, doc: "server learning rate"},
	{name: "beta1", initial: 0.9, max: 1, below: true, doc: "share of the first moment that is kept"},
	{name: "beta2", initial: 0.99, max: 1, below: true, doc: "share of the second moment that is kept"},
	{name: "tau", initial: 0.001, min: 1e-9, max: 1, doc: "added to the root of the second moment; larger is less adaptive"},
}

//nolint:unconvert // A conversion rounds, so nothing is fused.
func fedAdamStep[F float32 | float64](p values) func(*stepBlock[F]) {
	lr, beta1, beta2, tau := F(p[0]), F(p[1]), F(p[2]), F(p[3])
	rest1, rest2 := F(1-p[1]), F(1-p[2])
	return func(b *stepBlock[F]) {
		m, v := b.state[0], b.state[1]
		for i := range b.next {
			delta := b.mean[i] - b.base[i]
			m[i] = F(beta1*m[i]) + F(rest1*delta)
			v[i] = F(beta2*v[i]) + F(rest2*F(delta*delta))
			root := F(math.Sqrt(float64(v[i]))) // The root of a float32, rounded twice, is the float32 root.
			b.next[i] = b.base[i] + F(F(lr*m[i])/F(root+tau))
		}
	}
}
