package merge

// multiKrum averages the models that krum ranks best (Blanchard et al. 2017).
var multiKrum = spec{
	name: "multikrum",
	doc:  "weighted mean of the models that lie closest to most others",
	params: []param{
		liars,
		{name: "m", max: 4096, whole: true, doc: "how many models are averaged; 0: all but f"},
	},
	// More than n-f would surely average liars.
	least:     func(p values) int { return max(2*int(p[0])+3, int(p[0])+int(p[1])) },
	distances: true,
	leaf: func(p values, in Contributors) leafFunc {
		d := pairs{n: len(in.Weights), d: in.Distances}
		f, m := int(p[0]), int(p[1])
		if m == 0 {
			m = d.n - f
		}
		chosen := d.krum(in.Weights, everyone(d.n), f)[:m]
		return average(in.Weights, shares(in.Weights, chosen), chosen[0])
	},
}
