package swci_test

import (
	"slices"
	"strings"
	"testing"
)

// TestHelpLeadsToWhatIsWatched: the commands that show a training as it goes on are in the first steps or in the first group, and no group
// stands twice.
func TestHelpLeadsToWhatIsWatched(t *testing.T) {
	out, _ := run(t, "help")
	_, steps, _ := strings.Cut(out, "\n\nFirst steps\n")
	steps, groups, _ := strings.Cut(steps, "\n\n")
	if !strings.Contains(steps, "\n  swarmctl dashboard ") {
		t.Errorf("the first steps:\n%s", steps)
	}
	watch, _, _ := strings.Cut(groups, "\n\n")
	for _, want := range []string{"Watch\n", "\n  dashboard ", "\n  top [CONTRACT] ", "\n  track contract NAME ", "\n  get logs NAME "} {
		if !strings.Contains(watch, want) {
			t.Errorf("the first group lacks %q:\n%s", want, watch)
		}
	}
	var seen []string
	for _, c := range grammar(t).Commands() {
		if len(seen) == 0 || seen[len(seen)-1] != c.Group {
			seen = append(seen, c.Group)
		}
	}
	slices.Sort(seen)
	if once := slices.Compact(slices.Clone(seen)); len(once) != len(seen) {
		t.Errorf("a group stands twice: %v", seen)
	}
}
