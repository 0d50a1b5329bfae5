package merge

// diLoCo is the outer Nesterov step (Douillard et al. 2023, "DiLoCo"; as
// PyTorch's SGD with nesterov=True):
//
//	Δ = base - mean,  v ← momentum·v + Δ,  model = base - lr·(momentum·v + Δ)
var diLoCo = spec{
	name: "diloco",
	doc:  "outer Nesterov step from the last model",
	params: []param{
		{name: "lr", initial: 0.7, max: 100, above: true, doc: "outer learning rate"},
		momentum,
	},
	base:  true,
	slots: 1,
	leaf:  meanOf,
	step:  func(p values) step { return step{diLoCoStep[float32](p), diLoCoStep[float64](p)} },
}

//nolint:unconvert // A conversion rounds, so nothing is fused.
func diLoCoStep[F float32 | float64](p values) func(*stepBlock[F]) {
	lr, momentum := F(p[0]), F(p[1])
	return func(b *stepBlock[F]) {
		v := b.state[0]
		for i := range b.next {
			delta := b.base[i] - b.mean[i]
			v[i] = F(momentum*v[i]) + delta
			b.next[i] = b.base[i] - F(lr*F(F(momentum*v[i])+delta))
		}
	}
}
