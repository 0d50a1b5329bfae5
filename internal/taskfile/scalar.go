package taskfile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/suggest"
)

// rule is what a text may be. The zero rule is the schema's common one: 1 to 160 characters.
type rule struct {
	least    int  // characters; 0: 1, and -1: it may be empty
	null     bool // the schema lets it be null
	optional bool // the schema lets it be missing
	lines    bool // it may have several lines
	free     bool // it is for programs, which may mean what looks like a placeholder
	unused   bool // nobody needs it, and so no placeholder is missed in it
	any      bool // the schema does not mind whether it is text, a number, true or false
	long     bool // the schema has no bound
	max      int  // characters; 0: 160
}

// placeholders are what the original's files have where a user is to put in a value.
var (
	placeholders = regexp.MustCompile(`<[A-Z][A-Z0-9]*(?:[-_][A-Z0-9]+)*>`)
	published    = regexp.MustCompile(`<(?:PROJECT|PROJECT-MODEL|PROJECT-CERTS|PROJECT-CACERTS|SWARM-NETWORK|HOST_ADDRESS|LICENSE-SERVER-ADDRESS|CURRENT-PATH|APLS-IP|NETWORK-NAME|DNS|(?:SL|ML)-IP-[0-9]+)>`)
)

// text returns a scalar as it is written, whatever type it has in YAML; null is empty.
func (v value) text(r rule) string {
	if v.n.Kind != yaml.ScalarNode {
		hint := "write text"
		if v.n.Kind == yaml.MappingNode {
			hint = "write text, in quotes if it has a colon"
		}
		v.find(broken, "%s is %s: %s", v.name, v.kind(), hint)
		return ""
	}
	if v.null() {
		if !r.null {
			v.find(strict, "%s is null: write text", v.name)
		}
		return ""
	}
	s := v.n.Value
	if kind := v.kind(); kind != "text" && !r.any {
		v.find(strict, "%s is %s: quote it, as %q", v.name, kind, s)
	}
	if len(s) > maxText {
		v.find(broken, "%s has %d bytes, at most %d are read", v.name, len(s), maxText)
		return ""
	}
	if i := strings.IndexFunc(s, func(c rune) bool { return c < ' ' && c != '\t' && (c != '\n' || !r.lines) || c == 0x7f }); i >= 0 {
		v.find(broken, "%s has the control character %q: leave it out", v.name, s[i])
		return ""
	}
	most, least, n := r.max, max(r.least, 1), len([]rune(s))
	if most == 0 {
		most = 160
	}
	if r.least < 0 {
		least = 0
	}
	if n < least || n > most && !r.long {
		v.find(strict, "%s has %d characters: the original takes %d to %d", v.name, n, least, most)
	}
	holder := placeholders
	if r.free {
		holder = published
	}
	if p := holder.FindString(s); p != "" && !r.unused {
		v.find(unfilled, "%s holds the placeholder %s: put its value in", v.name, p)
	}
	return s
}

// oneOf returns the word of a list that a scalar is, case ignored; "" with a finding for another.
func (v value) oneOf(words ...string) string {
	s := v.text(rule{long: true, free: true})
	for _, w := range words {
		if strings.EqualFold(s, w) {
			if s != w {
				v.find(odd, "%s is %s: the original writes it %s", v.name, s, w)
			}
			return w
		}
	}
	if v.n.Kind == yaml.ScalarNode {
		v.find(broken, "%s %q is not known%s", v.name, clip(s), meant(s, words))
	}
	return ""
}

// meant names the word that was meant, or else all there are.
func meant(typed string, known []string) string {
	if near := suggest.Word(clip(typed), known); near != "" {
		return ": did you mean " + near + "?"
	}
	return ": use " + listed(known)
}

// listed is a list in words: a, b or c.
func listed(words []string) string {
	words = slices.Sorted(slices.Values(words))
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// clip bounds what a message repeats of a file.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// number returns a whole number within bounds; null is none.
func (v value) number(least, most int) (n int, given bool) {
	if v.null() {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(v.n.Value))
	if v.n.Kind != yaml.ScalarNode || err != nil || n < least || n > most {
		if v.n.Kind == yaml.ScalarNode {
			if p := placeholders.FindString(v.n.Value); p != "" {
				v.find(unfilled, "%s holds the placeholder %s: put its value in", v.name, p)
				return 0, false
			}
		}
		v.find(broken, "%s is %s %q: give a number from %d to %d", v.name, v.kind(), clip(v.n.Value), least, most)
		return 0, false
	}
	if v.n.ShortTag() != "!!int" {
		v.find(strict, "%s is %s: write the number without quotes", v.name, v.kind())
	}
	return n, true
}

// yes returns a truth value.
func (v value) yes() bool {
	switch strings.ToLower(v.text(rule{any: true, null: true, long: true, free: true})) {
	case "true", "yes", "on", "1":
		return true
	case "false", "no", "off", "0", "":
		return false
	}
	v.find(broken, "%s is %q: give true or false", v.name, clip(v.n.Value))
	return false
}
