// Command testsum reads `go test -json` from standard input and prints what a person wants to know: failures in full,
// packages with their time, skips by name and reason, the slowest tests, and a line of counts.
//
// It exits 1 on a failure, on input without a single test, and on a skip when SWARM_TEST_REQUIRE is "all".
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// slow is the time in seconds from which a test is named.
const slow = 5

type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type result struct {
	name    string
	seconds float64
}

type summary struct {
	out             io.Writer
	output          map[string][]string // lines of tests and packages that have not ended
	failed, skipped []string
	slowest         []result
	passed          int
}

func main() {
	s := &summary{out: os.Stdout, output: map[string][]string{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum: read tests:", err)
		os.Exit(1)
	}
	if !s.finish(os.Getenv("SWARM_TEST_REQUIRE") == "all") {
		os.Exit(1)
	}
}

func (s *summary) read(from io.Reader) error {
	in := bufio.NewScanner(from)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, in.Text()) // the go command itself
			continue
		}
		s.take(e)
	}
	return in.Err()
}

func (s *summary) take(e event) {
	key := strings.TrimSpace(e.Package + e.ImportPath + " " + e.Test)
	switch e.Action {
	case "output", "build-output":
		s.output[key] = append(s.output[key], e.Output)
		return
	case "fail", "build-fail":
		s.failed = append(s.failed, key)
		s.print(key)
		if e.Test == "" { // a panic or a timeout leaves tests behind that never ended
			for _, other := range slices.Sorted(unended(s.output, e.Package+" ")) {
				fmt.Fprintln(s.out, "did not end:", other)
				s.print(other)
			}
		}
	case "skip":
		if e.Test != "" {
			s.skipped = append(s.skipped, key+": "+reason(s.output[key]))
		}
	case "pass":
		if e.Test == "" {
			fmt.Fprintf(s.out, "ok   %-55s %6.1fs\n", e.Package, e.Elapsed)
			break
		}
		s.passed++
		if e.Elapsed >= slow && !strings.Contains(e.Test, "/") {
			s.slowest = append(s.slowest, result{key, e.Elapsed})
		}
	default:
		return
	}
	delete(s.output, key)
}

func unended(output map[string][]string, prefix string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range output {
			if strings.HasPrefix(key, prefix) && !yield(key) {
				return
			}
		}
	}
}

func (s *summary) print(key string) {
	for _, line := range s.output[key] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(s.out, line)
		}
	}
	delete(s.output, key)
}

// finish prints the end and says whether all is well.
func (s *summary) finish(noSkips bool) bool {
	slices.SortFunc(s.slowest, func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, r := range s.slowest[:min(len(s.slowest), 10)] {
		fmt.Fprintf(s.out, "slow %-55s %6.1fs\n", r.name, r.seconds)
	}
	for _, name := range s.skipped {
		fmt.Fprintln(s.out, "skip", name)
	}
	for _, name := range s.failed {
		fmt.Fprintln(s.out, "FAIL", name)
	}
	fmt.Fprintf(s.out, "go: %d passed, %d failed, %d skipped\n", s.passed, len(s.failed), len(s.skipped))
	if noSkips && len(s.skipped) > 0 {
		fmt.Fprintln(s.out, "go: tests were skipped, and SWARM_TEST_REQUIRE=all")
		return false
	}
	return len(s.failed) == 0 && s.passed > 0
}

// reason is what the test said when it skipped.
func reason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if text := strings.TrimSpace(line); text != "" && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "===") {
			return text
		}
	}
	return "no reason given"
}
