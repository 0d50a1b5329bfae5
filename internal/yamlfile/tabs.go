package yamlfile

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of the mending of tabs.
const (
	maxTabs     = 512     // lines
	maxTabBytes = 4 << 20 // that are parsed for it, all together
)

// What the parser says of a tab. In a text of several lines it names the tab's line; elsewhere that of what stood there last, after which there are
// only empty lines and comments before the tab.
const (
	tabInText  = "tab character where an indentation space"
	tabOutside = "tab character that violates indentation"
	tabAtFirst = "cannot start any token"
)

var (
	// blankTabs are a line's blanks if it has no more, with a tab among them.
	blankTabs = regexp.MustCompile(`^ *\t[ \t]*\r?\n?$`)
	// textBegins ends a line after which a text of several lines follows.
	textBegins = regexp.MustCompile(`[|>][-+0-9]*(?:[ \t]+#[^\n]*)?$`)
	// commentTabs are the blanks before a comment that is all of a line, with a tab among them.
	commentTabs = regexp.MustCompile(`^ *\t[ \t]*#`)
)

// withoutTabs parses a file again that the parser refused for a tab, without those that stand in empty lines and before comments, where YAML
// allows them. It changes only lines that the parser refuses, and none of a text: tabs count there.
func withoutTabs(data []byte, err error) (*yaml.Node, error) {
	data = bytes.Clone(data)
	for parsed := 0; parsed < min(maxTabs*len(data), maxTabBytes); parsed += len(data) {
		at, tabs := meaninglessTabs(data, err)
		if tabs == 0 {
			return nil, err
		}
		data = slices.Delete(data, at, at+tabs)
		var root *yaml.Node
		if root, err = parseSingle(data); err == nil {
			return root, nil
		}
	}
	return nil, err
}

// meaninglessTabs is the place and number of the blanks, tabs among them, that the line of an error begins with and that mean nothing.
func meaninglessTabs(data []byte, err error) (at, n int) {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, 0
	}
	number, _ := strconv.Atoi(m[1])
	at = lineAt(data, number)
	switch {
	case strings.Contains(m[2], tabInText):
		// Before a text's first line nobody knows how far it is indented: the tab may be its first character.
		if line := lineOf(data[at:]); blankTabs.Match(line) && (line[0] == '\t' || !textBegins.Match(bytes.TrimRight(data[:at], " \t\r\n"))) {
			return at, blanksOf(line)
		}
	case strings.Contains(m[2], tabOutside), strings.Contains(m[2], tabAtFirst):
		for first := true; at < len(data); first = false {
			line := lineOf(data[at:])
			if blankTabs.Match(line) || commentTabs.Match(line) {
				return at, blanksOf(line)
			}
			if before := bytes.TrimLeft(line, " "); !first && len(bytes.TrimSpace(before)) > 0 && before[0] != '#' {
				return 0, 0
			}
			at += len(line)
		}
	}
	return 0, 0
}

// lineAt is where line n begins, which counts from 1; 0 is the first one too.
func lineAt(data []byte, n int) (at int) {
	for ; n > 1 && at < len(data); n-- {
		at += len(lineOf(data[at:]))
	}
	return at
}

// lineOf is the first line, with its end.
func lineOf(data []byte) []byte {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return data[:end+1]
	}
	return data
}

// blanksOf is how many blanks and tabs a line begins with.
func blanksOf(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }
