package merge

// fedAvgM is server momentum (Hsu, Qi and Brown 2019, "Measuring the effects of
// non-identical data distribution"), the names short for Flower's FedAvgM:
//
//	Δ = base - mean,  v ← momentum·v + Δ,  model = base - lr·v
var fedAvgM = spec{
	name: "fedavgm",
	doc:  "step from the last model by momentum on the mean update",
	params: []param{
		{name: "lr", initial: 1, max: 100, above: true, doc: "server learning rate"},
		momentum,
	},
	base:  true,
	slots: 1,
	leaf:  meanOf,
	step:  func(p values) step { return step{fedAvgMStep[float32](p), fedAvgMStep[float64](p)} },
}

//nolint:unconvert // A conversion rounds, so nothing is fused.
func fedAvgMStep[F float32 | float64](p values) func(*stepBlock[F]) {
	lr, momentum := F(p[0]), F(p[1])
	return func(b *stepBlock[F]) {
		v := b.state[0]
		for i := range b.next {
			v[i] = F(momentum*v[i]) + F(b.base[i]-b.mean[i])
			b.next[i] = b.base[i] - F(lr*v[i])
		}
	}
}

var momentum = param{name: "momentum", initial: 0.9, max: 1, below: true, doc: "share of the last update that is carried over"}
