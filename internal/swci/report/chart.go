package report

import (
	"fmt"
	"math"
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

type point struct{ X, Y float64 }

// peerCharts is one peer's row of charts.
type peerCharts struct {
	Name   string
	Charts []chart
}

// chart is one drawing, ready for the template: all coordinates are computed.
type chart struct {
	Title  string
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
	Class string // "swarm" or "local"
	Label string
	Path  string // SVG path data
	Dense bool   // its dots are not drawn
	Dots  []dot
}

type dot struct {
	X, Y float64
	Text string
}

// charts draws accuracy and loss for each peer. All peers share the scales, so that they can be compared by eye.
func (p *Page) charts() []peerCharts {
	kinds := []struct {
		title string
		value func(metrics.Event) *float64
	}{
		{p.Summary.MetricTitle(), func(e metrics.Event) *float64 { return e.Metric }},
		{"loss", func(e metrics.Event) *float64 { return e.Loss }},
	}
	out := make([]peerCharts, len(p.Peers))
	for i, peer := range p.Peers {
		out[i].Name = peer.Name
	}
	for _, kind := range kinds {
		swarm, local := make([][]point, len(p.Peers)), make([][]point, len(p.Peers))
		var all []point
		for i, peer := range p.Peers {
			swarm[i] = thin(curvePoints(peer.Swarm, metrics.Merge, kind.value))
			if len(swarm[i]) == 0 {
				swarm[i] = thin(curvePoints(peer.Swarm, metrics.Epoch, kind.value))
			}
			local[i] = thin(curvePoints(peer.Local, metrics.Epoch, kind.value))
			all = append(append(all, swarm[i]...), local[i]...)
		}
		if len(all) == 0 {
			continue
		}
		s := newScale(all)
		for i := range p.Peers {
			out[i].Charts = append(out[i].Charts, s.draw(kind.title, swarm[i], local[i]))
		}
	}
	return out
}

// curvePoints returns value over epochs. Rounds within one epoch share its number: they are spread over it evenly.
// The value at the end of training closes the curve.
func curvePoints(events []metrics.Event, kind string, value func(metrics.Event) *float64) []point {
	perEpoch := map[int64]int{}
	var last float64
	for _, e := range events {
		if e.Kind == kind {
			perEpoch[e.Epoch]++
		}
		last = max(last, float64(e.Epoch))
	}
	seen := map[int64]int{}
	var out []point
	for _, e := range events {
		v := value(e)
		switch e.Kind {
		case kind:
			x := float64(e.Epoch) + float64(seen[e.Epoch])/float64(perEpoch[e.Epoch])
			seen[e.Epoch]++
			if v != nil {
				out = append(out, point{x, *v})
				last = max(last, x)
			}
		case metrics.End:
			if v != nil && len(out) > 0 {
				out = append(out, point{last, *v})
			}
		}
	}
	return out
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

func (s scale) draw(title string, swarm, local []point) chart {
	c := chart{Title: title, Width: chartW, Height: chartH, Left: left, Right: chartW - right, Base: chartH - bottom}
	for i := range int(math.Round((s.maxY-s.minY)/s.step)) + 1 {
		v := s.minY + s.step*float64(i)
		c.Grid = append(c.Grid, tick{s.y(v), strconv.FormatFloat(v, 'g', 4, 64)})
	}
	step := max(1, math.Ceil(s.maxX/5))
	for v := 0.0; v <= s.maxX; v += step {
		c.XTicks = append(c.XTicks, tick{s.x(v), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	for _, l := range []struct {
		class, label string
		points       []point
	}{{"local", "local only", local}, {"swarm", "swarm", swarm}} {
		if len(l.points) > 0 {
			c.Curves = append(c.Curves, s.curve(l.class, l.label, l.points))
		}
	}
	return c
}

func (s scale) curve(class, label string, points []point) curve {
	out := curve{Class: class, Label: label, Dense: len(points) > maxDots}
	var path strings.Builder
	for i, p := range points {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		x, y := s.x(p.X), s.y(p.Y)
		fmt.Fprintf(&path, "%s%g %g", verb, x, y)
		out.Dots = append(out.Dots, dot{x, y, fmt.Sprintf("%s, epoch %.4g: %.4g", label, p.X, p.Y)})
	}
	out.Path = path.String()
	return out
}

func round1(f float64) float64 { return math.Round(f*10) / 10 }
