package nodetest_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/node/nodetest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// varying is what a golden file can't hold: how long something lasts by then depends on which of two goroutines ran first.
var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`attempt \d+`), "attempt N"},
	{regexp.MustCompile(`\d+ (ms|s|min)\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "DIGEST"},
	// The leader asks all at once, and the answers come one by one.
	{regexp.MustCompile(`not answered yet: [a-z0-9-]+(, [a-z0-9-]+)*`), "not answered yet: SOME"},
	// An end of a dead link gives up dialling and waiting to be dialled at the same moment.
	{regexp.MustCompile(`dial: (no byte came in time|\S+ \(TCP\) does not answer)|\S+ opened no stream in time`), "SILENCE"},
}

// explanation returns what `swarmctl explain contract` prints at a time, or as soon before it as it says what the row names.
func (f fault) explanation(t *testing.T, s *nodetest.Swarm, at time.Time) string {
	t.Helper()
	if f.says == nil {
		sleepUntil(at)
		return explanation(t, s)
	}
	for {
		got := explanation(t, s)
		if f.says.MatchString(got) {
			return got
		}
		if time.Now().After(at) {
			t.Errorf("%s was not explained within %s; at the end:\n%s", f.says, f.explain, got)
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func explanation(t *testing.T, s *nodetest.Swarm) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := s.Operator().GetContractStatus(ctx, nodetest.Contract)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return strings.Join(res.GetExplanation(), "\n") + "\n"
}

// explained compares an explanation with the test's golden file.
func explained(t *testing.T, s *nodetest.Swarm, got string) {
	t.Helper()
	for _, v := range varying {
		got = v.what.ReplaceAllString(got, v.as)
	}
	path := filepath.Join("testdata", "explain", slug(t)+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
}
