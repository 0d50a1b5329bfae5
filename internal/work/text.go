package work

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/text"
)

// maxLines is how many of a program's last lines are told.
const maxLines = 5

// LastLines makes one printable line of the last lines that a program printed, as long as a member's text may be. It leaves out what stands
// first, since the reason of an end is said last.
func LastLines(lines []string) string {
	var kept []string
	for i := len(lines) - 1; i >= 0 && len(kept) < maxLines; i-- {
		if l := strings.TrimSpace(text.Line(strings.ToValidUTF8(lines[i], "\uFFFD"))); l != "" {
			kept = append([]string{l}, kept...)
		}
	}
	all := strings.Join(kept, " | ")
	if clipped(all) == all {
		return all
	}
	const mark = "…"
	if over := len(all) - task.MaxText; over > 0 {
		all = all[over:]
	}
	for all != "" && (!utf8.RuneStart(all[0]) || clipped(mark+all) != mark+all) {
		all = all[1:]
	}
	return mark + all
}

// Explained is an error with its remedy, in one line.
func Explained(err error) string {
	var with interface{ Remedy() string }
	if errors.As(err, &with) && with.Remedy() != "" {
		return err.Error() + ": " + with.Remedy()
	}
	return err.Error()
}

// clipped bounds the text of a report, and keeps its beginning.
func clipped(s string) string {
	return state.Clip(text.Line(strings.ToValidUTF8(s, "\uFFFD")), task.MaxText)
}
