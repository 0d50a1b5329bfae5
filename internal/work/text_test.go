package work_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"a", "", " b\t", "\x1b[31mc\x1b[0m", "\xff"}, "a | b | c | \uFFFD"},
		{[]string{"1", "2", "3", "4", "5", "6"}, "2 | 3 | 4 | 5 | 6"},
		{
			[]string{"program | boom", "left the swarm reason=x", "swarmd: program f.py: exit code 1; last lines:", "  about to fail", "  boom", ""},
			"program f.py: exit code 1; last lines: about to fail | boom",
		},
		{[]string{"a", "swarmd: program f.py ended without a session"}, "program f.py ended without a session"},
		{[]string{"swarmd: earlier", "swarmd: exit code 1; last lines:", "  " + strings.Repeat("x", 200), "  " + strings.Repeat("y", 200)}, "exit code 1; last lines: " + strings.Repeat("y", 200)},
		{[]string{"swarmd: exit code 1; last lines:", "  " + strings.Repeat("x", 300)}, "exit code 1; last lines: " + strings.Repeat("x", 227) + "…"},
	} {
		if got := work.LastLines(test.lines); got != test.want {
			t.Errorf("%q: %q, want %q", test.lines, got, test.want)
		}
	}
}

func FuzzLastLines(f *testing.F) {
	f.Add("first\nlast")
	f.Add(strings.Repeat("<é\u2028", 300) + "end")
	f.Add("swarmd: \xffa\x1b\n  b")
	f.Fuzz(func(t *testing.T, text string) {
		got := work.LastLines(strings.Split(text, "\n"))
		if got != state.Clip(got, task.MaxText) {
			t.Errorf("%q takes too much room", got)
		}
		if strings.ContainsAny(got, "\n\x1b\x00") {
			t.Errorf("%q is no plain line", got)
		}
	})
}

// TestARefusalHasNoHalfDigest: where its words are too long they end before the digest, and say that something is missing.
func TestARefusalHasNoHalfDigest(t *testing.T) {
	inLab(t, func(l *lab) {
		why := strings.Repeat("no sentence of this host's policy allows it, ", 4) + "nor the image that was found: "
		l.world.fail("prepare", errors.New(why+"sha256:"+strings.Repeat("0a", 32)))
		l.shows(1, wants(task.Placed, false))
		l.beat(5 * time.Second)
		if want := "exited -1 " + why + "… cleaned"; !slices.Contains(l.said, want) {
			t.Errorf("%q, want %q", l.said, want)
		}
	})
}
