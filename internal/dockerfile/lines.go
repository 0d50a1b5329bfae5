package dockerfile

import (
	"regexp"
	"strings"
)

// line is an instruction as it stands in a file, in one line or several.
type line struct {
	number int // of the first one, from 1
	text   string
	wrong  string // what engines read differently; empty: nothing
}

var (
	goesOn    = regexp.MustCompile(`\\[ \t]*$`)
	ambiguous = regexp.MustCompile(`\\\\[ \t]*$`)
	escape    = regexp.MustCompile(`(?i)^#[ \t]*escape[ \t]*=[ \t]*([^ \t]*)`)
)

// join makes one line of each instruction, as engines do. Comments are left out, also those that tell how to read the file.
func join(text string) (all []line) {
	var open *line
	for i, raw := range strings.Split(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		raw = strings.TrimRight(raw, "\r")
		trimmed := strings.TrimLeft(raw, " \t")
		comment := strings.HasPrefix(trimmed, "#")
		if m := escape.FindStringSubmatch(trimmed); m != nil && m[1] != `\` && len(all) == 0 && open == nil {
			return []line{{number: i + 1, wrong: "a line goes on after \\: leave out # escape"}}
		}
		if comment || strings.TrimSpace(raw) == "" {
			continue
		}
		if open == nil {
			open, raw = &line{number: i + 1}, trimmed
		}
		if ambiguous.MatchString(raw) {
			open.wrong = "it ends with two backslashes, which engines read differently: write one, or none"
		}
		more := goesOn.MatchString(raw)
		open.text += goesOn.ReplaceAllString(raw, "")
		if !more {
			all, open = append(all, *open), nil
		}
	}
	if open != nil && strings.TrimSpace(open.text) != "" {
		all = append(all, *open)
	}
	return all
}
