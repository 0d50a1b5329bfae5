package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/metrics"
)

// Size of a chart in SVG units, and the margins that hold its labels.
const (
	chartW, chartH = 360.0, 210.0
	left, right    = 44.0, 10.0
	top, bottom    = 12.0, 30.0
	maxPoints      = 1500 // of one curve: more can not be seen and would make the page heavy
	maxDots        = 40   // of one curve: more would be a thick line; they still say their value when pointed at
)

type point struct {
	X, Y  float64
	round int64 // of the model that was measured; 0: none, or a peer's own
}

// chart is one drawing, ready for the template: all coordinates are computed.
type chart struct {
	Title  string
	Axis   string // epochs or rounds
	Note   string
	Width  float64
	Height float64
	Grid   []tick
	XTicks []tick
	Curves []curve
	Right  float64
	Left   float64
	Base   float64
}

type tick struct {
	At    float64
	Label string
}

type curve struct {
	Class string // "swarm", or "local" with that of the peer's colour
	Label string
	Path  string // SVG path data
	Dense bool   // its dots are not drawn
	Dots  []dot
}

type dot struct {
	X, Y float64
	Text string
}

// line is a curve before it is drawn.
type line struct {
	class, label string
	points       []point
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

// charts draws metric and loss: the merged model once, and each peer's own model dashed, that of its run alone or, without one, what it
// measured between merges.
func (p *Page) charts() []chart {
	axis := "epochs"
	if !slices.ContainsFunc(p.Peers, Events.hasEpochs) {
		axis = "rounds"
	}
	var out []chart
	for _, kind := range p.kinds() {
		var lines []line
		for i, peer := range p.Peers {
			own := epochPoints(peer.Local, kind.value)
			if !p.baseline() {
				own = epochPoints(peer.Swarm, kind.value)
			}
			if len(own) > 0 {
				lines = append(lines, line{"local " + colour(i, len(p.Peers)), peer.Name + " " + p.ownWords(), thin(own)})
			}
		}
		merged, spread := mergedPoints(p.Peers, kind.value, axis)
		if len(merged) > 0 {
			lines = append(lines, line{"swarm", "merged model", thin(merged)})
		}
		if len(lines) == 0 {
			continue
		}
		c := draw(lines, axis)
		c.Title, c.Axis = kind.title, axis
		if spread {
			c.Note = "The merged model is one, but peers measured it on data of their own: the curve is their mean."
		}
		out = append(out, c)
	}
	return out
}

// ownWords is what a peer's own curve is called.
func (p *Page) ownWords() string {
	if p.baseline() {
		return "alone"
	}
	return "between merges"
}

func (p *Page) baseline() bool {
	return slices.ContainsFunc(p.Peers, func(e Events) bool { return len(e.Local) > 0 })
}

// hasEpochs reports whether any event knows of an epoch.
func (e Events) hasEpochs() bool {
	known := func(e metrics.Event) bool { return e.Epoch > 0 }
	return slices.ContainsFunc(e.Swarm, known) || slices.ContainsFunc(e.Local, known)
}

// colours are as many as the page's style has for peers; more peers share one.
const colours = 6

func colour(i, peers int) string {
	if peers > colours {
		return "p"
	}
	return fmt.Sprintf("p p%d", i)
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
		if axis == "rounds" {
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

type scale struct {
	maxX, minY, maxY float64
	step             float64 // between the lines of the grid
}

// newScale fits all points; values between 0 and 1 get exactly that range.
func newScale(points []point) scale {
	s := scale{maxX: 1, minY: math.Inf(1), maxY: math.Inf(-1)}
	for _, p := range points {
		s.maxX = max(s.maxX, p.X)
		s.minY, s.maxY = min(s.minY, p.Y), max(s.maxY, p.Y)
	}
	switch {
	case s.minY >= 0 && s.maxY <= 1:
		s.minY, s.maxY = 0, 1
	case s.minY >= 0:
		s.minY = 0
	}
	// Spans beyond what a float can subtract would give infinite coordinates.
	if span := s.maxY - s.minY; !(span > 0) || math.IsInf(span, 0) {
		s.minY, s.maxY = max(s.minY-1, -1e300), min(s.maxY+1, 1e300)
	}
	s.round()
	return s
}

// round widens the range to whole steps of 1, 2, 2.5 or 5 times a power of ten, where floats can.
func (s *scale) round() {
	rough := (s.maxY - s.minY) / 4
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	s.step = rough
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if step := f * power; step >= rough*0.999 && step < 1e290 && step > 1e-290 {
			s.minY, s.maxY, s.step = math.Floor(s.minY/step+1e-9)*step, math.Ceil(s.maxY/step-1e-9)*step, step
			return
		}
	}
}

func (s scale) x(v float64) float64 {
	return round1(left + v/s.maxX*(chartW-left-right))
}

func (s scale) y(v float64) float64 {
	part := (v - s.minY) / (s.maxY - s.minY)
	return round1(chartH - bottom - max(0, min(1, part))*(chartH-top-bottom))
}

// draw scales all lines alike.
func draw(lines []line, axis string) chart {
	var all []point
	for _, l := range lines {
		all = append(all, l.points...)
	}
	s := newScale(all)
	c := chart{Width: chartW, Height: chartH, Left: left, Right: chartW - right, Base: chartH - bottom}
	for i := range int(math.Round((s.maxY-s.minY)/s.step)) + 1 {
		v := s.minY + s.step*float64(i)
		c.Grid = append(c.Grid, tick{s.y(v), strconv.FormatFloat(v, 'g', 4, 64)})
	}
	step := roundStep(s.maxX / 6)
	for v := 0.0; v <= s.maxX; v += step {
		c.XTicks = append(c.XTicks, tick{s.x(v), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	for _, l := range lines {
		c.Curves = append(c.Curves, s.curve(l, strings.TrimSuffix(axis, "s")))
	}
	return c
}

func (s scale) curve(l line, unit string) curve {
	out := curve{Class: l.class, Label: l.label, Dense: len(l.points) > maxDots || l.class != "swarm" && len(l.points) > maxDots/3}
	var path strings.Builder
	for i, p := range l.points {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		x, y := s.x(p.X), s.y(p.Y)
		fmt.Fprintf(&path, "%s%g %g", verb, x, y)
		out.Dots = append(out.Dots, dot{x, y, fmt.Sprintf("%s, %s %.4g: %.4g", l.label, unit, p.X, p.Y)})
	}
	out.Path = path.String()
	return out
}

// roundStep is the least of 1, 2, 5, 10, 20, … that is not below f.
func roundStep(f float64) float64 {
	for power := 1.0; power < 1e18; power *= 10 {
		for _, step := range []float64{1, 2, 5} {
			if step*power >= f {
				return step * power
			}
		}
	}
	return f
}

func round1(f float64) float64 { return math.Round(f*10) / 10 }
