package containers

import (
	"context"
	"log/slog"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/peering"
)

// TestAnSLThatSomebodyElseStopped is told from one whose program failed by what it says last, as an engine that was killed has it.
func TestAnSLThatSomebodyElseStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := peering.NewPart(task.Part{Host: "h", Assignment: "7", Epoch: 1}, slog.New(slog.DiscardHandler)).Within(ctx, func(context.Context) (int, error) { return 0, nil })
	if err == nil {
		t.Fatal("a part that is stopped has succeeded")
	}
	end := "swarmd: " + err.Error() // as its command prints it
	for _, tt := range []struct {
		lines []string
		want  bool
	}{
		{[]string{"program | x", end, ""}, true},
		{[]string{end, "swarmd: program train.py: exit code 1"}, false},
		{[]string{`2026-11-27 04:20:56,666 : swarm.SL : INFO : left the swarm reason="training is over"`}, false},
		{nil, false},
	} {
		if got := stopped(tt.lines); got != tt.want {
			t.Errorf("%q: %v", tt.lines, got)
		}
	}
}
