package launch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
)

func TestLastWins(t *testing.T) {
	got := launch.LastWins([]string{"A=1", "B=2"}, nil, []string{"C", "A=3=4", "B="})
	if diff := cmp.Diff(got, []string{"A=3=4", "B=", "C"}); diff != "" {
		t.Errorf("list (-got +want):\n%s", diff)
	}
}
