// Command testsum reads `go test -json` from standard input, prints failures in full, skips by name and a line of counts.
// It exits 1 on a failure, and on a skip when SWARM_TEST_REQUIRE is "all".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	output := map[string][]string{} // lines of tests and packages that have not ended
	var failed, skipped []string
	passed := 0
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // a build error
			continue
		}
		key := strings.TrimSpace(e.Package + " " + e.Test)
		switch e.Action {
		case "output", "build-output":
			output[key] = append(output[key], e.Output)
			continue
		case "fail", "build-fail":
			failed = append(failed, key)
			fmt.Print(strings.Join(output[key], ""))
		case "skip":
			if e.Test != "" {
				skipped = append(skipped, key+": "+reason(output[key]))
			}
		case "pass":
			if e.Test != "" {
				passed++
			} else {
				fmt.Printf("ok   %-60s %6.1fs\n", e.Package, e.Elapsed)
			}
		default:
			continue
		}
		delete(output, key)
	}
	for _, s := range skipped {
		fmt.Println("skip", s)
	}
	for _, f := range failed {
		fmt.Println("FAIL", f)
	}
	fmt.Printf("go: %d passed, %d failed, %d skipped\n", passed, len(failed), len(skipped))
	if len(failed) > 0 || passed == 0 || (len(skipped) > 0 && os.Getenv("SWARM_TEST_REQUIRE") == "all") {
		os.Exit(1)
	}
}

// reason is what the test said when it skipped.
func reason(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if text := strings.TrimSpace(lines[i]); text != "" && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "===") {
			return text
		}
	}
	return "no reason given"
}
