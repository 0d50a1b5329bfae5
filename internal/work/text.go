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

// verdict begins what an SL says of its end. The last lines of its program follow there, further indented.
const verdict = "swarmd: "

// LastLines makes one printable line of the last lines that a program printed, as long as a member's text may be. It leaves out what stands
// first, since the reason of an end is said last; where an SL has said the reason itself, all that stands before.
func LastLines(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if why, own := strings.CutPrefix(lines[i], verdict); own {
			return endOf(why, last(lines[i+1:]))
		}
	}
	all := strings.Join(last(lines), " | ")
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

// last are the last lines that say something.
func last(lines []string) (kept []string) {
	for i := len(lines) - 1; i >= 0 && len(kept) < maxLines; i-- {
		if l := strings.TrimSpace(text.Line(strings.ToValidUTF8(lines[i], "\uFFFD"))); l != "" {
			kept = append([]string{l}, kept...)
		}
	}
	return kept
}

// endOf is why an SL has ended, with as many of its program's last lines as there is room for.
func endOf(why string, lines []string) string {
	why = text.Line(strings.ToValidUTF8(why, "\uFFFD"))
	for ; len(lines) > 0; lines = lines[1:] {
		if all := why + " " + strings.Join(lines, " | "); clipped(all) == all || len(lines) == 1 {
			return clipped(all)
		}
	}
	return clipped(why)
}

// Explained is an error with its remedy, in one line.
func Explained(err error) string {
	var with interface{ Remedy() string }
	if errors.As(err, &with) && with.Remedy() != "" {
		return err.Error() + ": " + with.Remedy()
	}
	return err.Error()
}

// Lasts is why an error does not pass before somebody corrects something on the host, in words that tell nothing of the host; empty: it may.
func Lasts(err error) string {
	var says interface{ Lasts() string }
	if errors.As(err, &says) {
		return says.Lasts()
	}
	return ""
}

// clipped bounds the text of a report, and keeps its beginning.
func clipped(s string) string {
	return state.ClipWords(text.Line(strings.ToValidUTF8(s, "\uFFFD")), task.MaxText)
}
