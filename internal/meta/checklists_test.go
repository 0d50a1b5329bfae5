package meta

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxChecklist is how many lines a checklist of CONTRIBUTING.md may have: what takes more steps is to be made simpler.
const maxChecklist = 8

var codeSpan = regexp.MustCompile("`([^`]+)`")

// The checklists of CONTRIBUTING.md are short, and the files that they name exist, but for those that whoever follows them makes.
func TestChecklistsAreShortAndNameFiles(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\n## Adding things\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	lists := strings.Split(section, "\n### ")[1:]
	if len(lists) != 6 {
		t.Errorf("%d checklists, want 6", len(lists))
	}
	for _, list := range lists {
		title, body, _ := strings.Cut(list, "\n")
		body = strings.TrimSpace(body)
		if n := strings.Count(body, "\n") + 1; n > maxChecklist {
			t.Errorf("%s: %d lines, at most %d", title, n, maxChecklist)
		}
		named := 0
		for _, m := range codeSpan.FindAllStringSubmatch(body, -1) {
			if !strings.Contains(m[1], "/") && path.Ext(m[1]) == "" || strings.Contains(m[1], " ") {
				continue // a name in the code, or a command
			}
			named++
			file := strings.ReplaceAll(m[1], "NAME", "*")
			if _, err := os.Stat("../../" + file); err == nil {
				continue
			}
			if !strings.Contains(file, "*") {
				t.Errorf("%s: names %s, which does not exist", title, m[1])
			} else if _, err := os.Stat("../../" + path.Dir(file)); err != nil {
				t.Errorf("%s: names %s, whose directory does not exist", title, m[1])
			}
		}
		if named < 3 {
			t.Errorf("%s: names %d files: has its form changed?", title, named)
		}
	}
}
