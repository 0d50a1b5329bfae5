package merge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// MaxMethod is the longest text, in bytes, that ParseMethod reads.
const MaxMethod = 256

// ErrMethod is wrapped by errors about a text that names no merge method, or
// one whose parameters are unknown or out of range.
var ErrMethod = errors.New("merge method is not valid")

// methods is the registry: one line for each method, one file for each.
var methods = []*spec{
	&mean,
	&coordMedian,
	&trimmedMean,
	&geoMedian,
	&krum,
	&multiKrum,
	&bulyan,
	&normClip,
	&fedAvgM,
	&fedAdam,
	&fedYogi,
	&diLoCo,
}

// spec is what a method's file says about it.
type spec struct {
	name   string
	doc    string // one line for users
	params []param
	least  func(values) int // participants of weight > 0 that it needs; nil: one

	distances   bool // needs Contributors.Distances
	boundsNorms bool // needs Contributors.Factors
	base        bool // reads the last committed model
	slots       int  // values of optimiser state per float element

	// leaf returns the function that merges a leaf, for contributors that
	// NewMerger has checked.
	leaf func(values, Contributors) leafFunc
	// step is an optimiser's step over one segment; nil for other methods.
	step func(values) step
}

// param is one parameter. Its range is min <= v <= max, or v < max if below,
// or v > min if above.
type param struct {
	name         string
	initial      float64
	min, max     float64
	above, below bool
	whole        bool // only whole numbers
	doc          string
}

// values are a method's parameters in the order of its spec.
type values []float64

func (p *param) check(v float64) bool {
	return v >= p.min && v <= p.max && !(p.above && v == p.min) && !(p.below && v == p.max) && !(p.whole && v != math.Trunc(v))
}

// span says in words what check asks.
func (p *param) span() string {
	kind, from, to := "a number", "from "+formatNumber(p.min), " to "+formatNumber(p.max)
	if p.whole {
		kind = "a whole number"
	}
	if p.above {
		from = "above " + formatNumber(p.min)
	}
	if p.below {
		to = " to below " + formatNumber(p.max)
	}
	if math.IsInf(p.max, 1) || p.max == math.MaxFloat64 {
		to = ""
	}
	return kind + " " + from + to
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Parameter tells users about one parameter of a method.
type Parameter struct {
	Name    string
	Default float64
	Range   string // in words
	Doc     string // a few words
}

// Explain returns a method's line for users and its parameters in canonical
// order; nothing for an unknown name.
func Explain(method string) (doc string, parameters []Parameter) {
	for _, s := range methods {
		if s.name != method {
			continue
		}
		for i := range s.params {
			p := &s.params[i]
			parameters = append(parameters, Parameter{p.name, p.initial, p.span(), p.doc})
		}
		return s.doc, parameters
	}
	return "", nil
}

// Method is a merge method with all its parameters. It is immutable and safe
// for concurrent use.
type Method struct {
	spec   *spec
	values values
	wire   DType // zero: elements travel in their own type
	text   string
}

// Methods returns the names of all methods, sorted.
func Methods() []string {
	names := make([]string, len(methods))
	for i, s := range methods {
		names[i] = s.name
	}
	slices.Sort(names)
	return names
}

// ParseMethod reads a method's name and, in parentheses, parameters as
// name=value with commas between. Case and blanks do not matter, nor does the
// order; a parameter that is left out takes its default. Every method takes
// wire beside its own: see Method.Wire. Errors wrap ErrMethod and name the known
// methods, or the parameter and its range. The text may be hostile.
func ParseMethod(of string) (*Method, error) {
	if len(of) > MaxMethod {
		return nil, fmt.Errorf("%w: %d characters, at most %d are allowed", ErrMethod, len(of), MaxMethod)
	}
	name, rest, open := strings.Cut(of, "(")
	name = strings.ToLower(strings.TrimSpace(name))
	i := slices.IndexFunc(methods, func(s *spec) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no %q: use one of %s", ErrMethod, text.Clip(name, 64), strings.Join(Methods(), ", "))
	}
	s := methods[i]
	given := ""
	if open {
		inner, closed := strings.CutSuffix(strings.TrimSpace(rest), ")")
		if !closed {
			return nil, fmt.Errorf("%w: %q: the closing parenthesis is missing", ErrMethod, text.Clip(of, 64))
		}
		given = inner
	}
	v, wire, err := s.parse(given)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMethod, s.name, err)
	}
	return &Method{spec: s, values: v, wire: wire, text: s.format(v, wire)}, nil
}

func (s *spec) parse(of string) (out values, wire DType, err error) {
	out = make(values, len(s.params))
	for i := range s.params {
		out[i] = s.params[i].initial
	}
	if strings.TrimSpace(of) == "" {
		return out, 0, nil
	}
	seen := make([]bool, len(s.params))
	for part := range strings.SplitSeq(of, ",") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if name == wireParam {
			if wire != 0 {
				return nil, 0, fmt.Errorf("parameter %q is given twice", name)
			}
			if wire, err = parseWire(value); err != nil {
				return nil, 0, err
			}
			continue
		}
		i := slices.IndexFunc(s.params, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, 0, fmt.Errorf("no parameter %q: %s", text.Clip(name, 32), s.known())
		}
		if seen[i] {
			return nil, 0, fmt.Errorf("parameter %q is given twice", name)
		}
		seen[i] = true
		p := &s.params[i]
		v, err := decimal(value)
		if err != nil || !p.check(v) {
			return nil, 0, fmt.Errorf("parameter %s is %q: want %s", name, text.Clip(value, 32), p.span())
		}
		out[i] = v
	}
	return out, wire, nil
}

// known returns the names of all parameters.
func (s *spec) known() string {
	names := make([]string, len(s.params), len(s.params)+1)
	for i := range s.params {
		names[i] = s.params[i].name
	}
	return "use " + strings.Join(append(names, wireParam), ", ")
}

// decimal reads a finite decimal number; -0 becomes 0.
func decimal(text string) (float64, error) {
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(text, 64)
	return v + 0, err
}

func (s *spec) format(v values, wire DType) string {
	var given []string
	for i := range v {
		given = append(given, s.params[i].name+"="+formatNumber(v[i]))
	}
	if wire != 0 {
		given = append(given, wireParam+"="+wire.String())
	}
	if given == nil {
		return s.name
	}
	return s.name + "(" + strings.Join(given, ",") + ")"
}

// String returns the canonical form: the name, and all parameters in the
// registry's order with the shortest form of each number, wire last if it is
// given. ParseMethod reads it back; equal methods have equal forms.
func (m *Method) String() string { return m.text }

// Name returns the name alone.
func (m *Method) Name() string { return m.spec.name }

// LeastContributors returns how many participants of weight above 0 the method
// needs; at least 1.
func (m *Method) LeastContributors() int {
	if m.spec.least == nil {
		return 1
	}
	return max(1, m.spec.least(m.values))
}

// Distances reports whether the squared distances between all pairs of whole
// models are needed before the first leaf can be merged.
func (m *Method) Distances() bool { return m.spec.distances }

// BoundsNorms reports whether the contributors' update norms must be declared and
// bounded by Factors.
func (m *Method) BoundsNorms() bool { return m.spec.boundsNorms }

// UsesBase reports whether the method reads the last committed model, if there
// is one.
func (m *Method) UsesBase() bool { return m.spec.base }
