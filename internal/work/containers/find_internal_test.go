package containers

import "testing"

// TestAnSLThatSomebodyElseStopped is told from one whose program failed by what it says last, as an engine that was killed has it.
func TestAnSLThatSomebodyElseStopped(t *testing.T) {
	const end = `2026-11-27 04:20:56,666 : swarm.SL : INFO : stopped as asked node=h-sl-0 exit_code=1`
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
