package report

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

const (
	maxPoints = 1500  // of one curve: more can not be seen and would make the page heavy
	maxValue  = 1e300 // beyond it the span of two values is no number
)

// Chart is the curves of one kind of value, over an axis that they share.
type Chart struct {
	Title  string    `json:"title"`
	X      []float64 `json:"x"` // epochs or rounds, in order
	Curves []Curve   `json:"curves"`
	Spread bool      `json:"spread"` // peers measured the merged model on data of their own
}

// Curve has a value, or nil, for each place of its chart's axis.
type Curve struct {
	Name   string     `json:"name"` // a peer's; empty for the merged model
	Values []*float64 `json:"values"`
}

type point struct {
	X, Y  float64
	round int64 // of the model that was measured; 0: none, or a peer's own
}

// line is a curve on an axis of its own.
type line struct {
	name   string
	points []point
}

// kinds of what is measured.
func (p *Page) kinds() []kind {
	return []kind{
		{p.Summary.MetricTitle(), func(e metrics.Event) *float64 { return e.Metric }},
		{"loss", func(e metrics.Event) *float64 { return e.Loss }},
	}
}

type kind struct {
	title string
	value func(metrics.Event) *float64
}

// axis is what curves are drawn over: epochs, or rounds where no program knows of any.
func (p *Page) axis() string {
	if slices.ContainsFunc(p.Peers, Events.hasEpochs) {
		return "epoch"
	}
	return "round"
}

// charts are those of metric and loss: the merged model once, and each peer's own model, that of its run alone or, without one, what it
// measured between merges.
func (p *Page) charts() []Chart {
	out := []Chart{}
	for _, kind := range p.kinds() {
		var lines []line
		for _, peer := range p.Peers {
			own := peer.Swarm
			if p.baseline() {
				own = peer.Local
			}
			lines = append(lines, line{peer.Name, thin(epochPoints(own, kind.value))})
		}
		merged, spread := mergedPoints(p.Peers, kind.value, p.axis())
		lines = append(lines, line{"", thin(merged)})
		lines = slices.DeleteFunc(lines, func(l line) bool { return len(l.points) == 0 })
		if len(lines) > 0 {
			out = append(out, onOneAxis(kind.title, lines, spread))
		}
	}
	return out
}

// onOneAxis gives all lines the places of each of them.
func onOneAxis(title string, lines []line, spread bool) Chart {
	at := map[float64]int{}
	for _, l := range lines {
		for _, p := range l.points {
			at[p.X] = 0
		}
	}
	c := Chart{Title: title, X: slices.Sorted(maps.Keys(at)), Spread: spread}
	for i, x := range c.X {
		at[x] = i
	}
	for _, l := range lines {
		curve := Curve{Name: l.name, Values: make([]*float64, len(c.X))}
		for _, p := range l.points {
			v := max(-maxValue, min(maxValue, p.Y))
			curve.Values[at[p.X]] = &v
		}
		c.Curves = append(c.Curves, curve)
	}
	return c
}

func (p *Page) baseline() bool {
	return slices.ContainsFunc(p.Peers, func(e Events) bool { return len(e.Local) > 0 })
}

// hasEpochs reports whether any event knows of an epoch.
func (e Events) hasEpochs() bool {
	known := func(e metrics.Event) bool { return e.Epoch > 0 }
	return slices.ContainsFunc(e.Swarm, known) || slices.ContainsFunc(e.Local, known)
}

// epochPoints returns value over epochs. What was measured last of an epoch counts. The value at the end of training closes a curve of a
// peer that trained alone.
func epochPoints(events []metrics.Event, value func(metrics.Event) *float64) []point {
	var out []point
	put := func(x, y float64) {
		if n := len(out); n > 0 && out[n-1].X == x {
			out[n-1].Y = y
			return
		}
		out = append(out, point{X: x, Y: y})
	}
	for _, e := range events {
		v := value(e)
		switch {
		case v == nil:
		case e.Kind == metrics.Epoch:
			put(float64(e.Epoch), *v)
		case e.Kind == metrics.End && e.Loopback && len(out) > 0:
			put(out[len(out)-1].X, *v)
		}
	}
	return out
}

// mergePoints returns value over epochs, or rounds, at merges. Rounds within one epoch share its number: they are spread over it evenly.
// The value of the final model closes the curve.
func mergePoints(events []metrics.Event, value func(metrics.Event) *float64, axis string) []point {
	perEpoch, seen := map[int64]int{}, map[int64]int{}
	last := 0.0
	for _, e := range events {
		if e.Kind == metrics.Merge {
			perEpoch[e.Epoch]++
		}
		last = max(last, float64(e.Epoch))
	}
	var out []point
	for _, e := range events {
		x := float64(e.Epoch) + float64(seen[e.Epoch])/float64(max(1, perEpoch[e.Epoch]))
		switch e.Kind {
		case metrics.Merge:
			seen[e.Epoch]++
		case metrics.End:
			x = max(last, x)
		default:
			continue
		}
		if axis == "round" {
			x = float64(e.Round)
		}
		if v := value(e); v != nil {
			out = append(out, point{x, *v, e.Round})
		}
	}
	return out
}

// mergedPoints is the curve of the merged model, which is the same at all peers: in each round, the mean of what peers measured, where the
// first of them was in its training. spread says that they measured different values.
func mergedPoints(peers []Events, value func(metrics.Event) *float64, axis string) (out []point, spread bool) {
	at, count := map[int64]int{}, []float64{}
	for _, peer := range peers {
		for _, m := range mergePoints(peer.Swarm, value, axis) {
			i, known := at[m.round]
			if !known {
				at[m.round] = len(out)
				out, count = append(out, m), append(count, 1)
				continue
			}
			if first := out[i].Y; math.Abs(first-m.Y) > 1e-6*max(1, math.Abs(first)) {
				spread = true
			}
			count[i]++
			if next := out[i].Y + (m.Y-out[i].Y)/count[i]; !math.IsInf(next, 0) && !math.IsNaN(next) {
				out[i].Y = next
			}
		}
	}
	slices.SortStableFunc(out, func(a, b point) int { return cmp.Compare(a.round, b.round) })
	return out, spread
}

// thin keeps the first, the last and evenly many points between.
func thin(points []point) []point {
	if len(points) <= maxPoints {
		return points
	}
	out := make([]point, 0, maxPoints)
	for i := range maxPoints {
		out = append(out, points[i*(len(points)-1)/(maxPoints-1)])
	}
	return out
}
