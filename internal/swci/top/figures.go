package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// figure is a measure such as a loss, with four digits.
func figure(x *float64) string {
	if x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
		return none
	}
	switch a := math.Abs(*x); {
	case a != 0 && (a < 1e-3 || a >= 1e6):
		return strconv.FormatFloat(*x, 'e', 2, 64)
	case a >= 1000:
		return strconv.FormatFloat(*x, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(*x, 'f', 1, 64)
	case a >= 10:
		return strconv.FormatFloat(*x, 'f', 2, 64)
	}
	return strconv.FormatFloat(*x, 'f', 4, 64)
}

// octets is a size with its unit.
func octets(n *uint64) string {
	if n == nil {
		return none
	}
	if *n < 1000 {
		return fmt.Sprintf("%d B", *n)
	}
	x, unit := float64(*n), ""
	for _, next := range []string{"kB", "MB", "GB", "TB", "PB", "EB"} {
		if x < 999.5 {
			break
		}
		x, unit = x/1000, next
	}
	digits := 0
	switch {
	case x < 9.995:
		digits = 2
	case x < 99.95:
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + " " + unit
}

// gibi is memory as it is sold; empty for none that is known.
func gibi(bytes uint64) string {
	if bytes == 0 {
		return none
	}
	return fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
}

// quantity is a number that is not known as 0.
func quantity(n uint64) string {
	if n == 0 {
		return none
	}
	return strconv.FormatUint(n, 10)
}

// took is how long something took, in milliseconds.
func took(ms *uint64) string {
	switch {
	case ms == nil:
		return none
	case *ms < 1000:
		return fmt.Sprintf("%d ms", *ms)
	case *ms < 10_000:
		return fmt.Sprintf("%.1f s", float64(*ms)/1000)
	case *ms > uint64(math.MaxInt64/time.Millisecond):
		return none
	}
	return rough(time.Duration(*ms) * time.Millisecond) //nolint:gosec // it was bounded above
}

// rough is a length of time in at most two units.
func rough(d time.Duration) string {
	s := max(int64(d.Round(time.Second)/time.Second), 0)
	two := func(big int64, one string, small int64, other string) string {
		if small == 0 {
			return fmt.Sprintf("%d %s", big, one)
		}
		return fmt.Sprintf("%d %s %d %s", big, one, small, other)
	}
	switch {
	case s < 120:
		return fmt.Sprintf("%d s", s)
	case s < 600:
		return two(s/60, "min", s%60, "s")
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 48*3600:
		return two(s/3600, "h", s%3600/60, "min")
	}
	return fmt.Sprintf("%d days", s/86400)
}

// instant is a time of a document; ok is false for none.
func instant(at *string) (t time.Time, ok bool) {
	if at == nil {
		return t, false
	}
	t, err := time.Parse(time.RFC3339Nano, *at)
	return t, err == nil
}

// since is how long ago a time of a document was.
func since(at *string, now time.Time) string {
	t, ok := instant(at)
	if !ok {
		return none
	}
	return rough(now.Sub(t)) + " ago"
}

// several is "1 node", "2 nodes".
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bar is a share of 1 as a bar.
func bar(share float64, width int) string {
	n := int(math.Round(min(max(share, 0), 1) * float64(width)))
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}

// curve draws values in a width, oldest first; where there is no room for all, each place has the mean of some.
func curve(values []float64, width int) string {
	if len(values) == 0 || width < 1 {
		return ""
	}
	width = min(width, len(values))
	places := make([]float64, width)
	low, high := math.Inf(1), math.Inf(-1)
	for i := range places {
		some := values[i*len(values)/width : (i+1)*len(values)/width]
		for _, v := range some {
			places[i] += v / float64(len(some))
		}
		low, high = min(low, places[i]), max(high, places[i])
	}
	steps := []rune("▁▂▃▄▅▆▇█")
	var out strings.Builder
	for _, v := range places {
		step := len(steps) / 2
		if half := high/2 - low/2; half > 0 { // halves: the difference of two numbers may be none
			step = int((v/2 - low/2) / half * float64(len(steps)-1))
		}
		out.WriteRune(steps[min(max(step, 0), len(steps)-1)])
	}
	return out.String()
}
