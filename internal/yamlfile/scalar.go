package yamlfile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/suggest"
)

// Rule is what a text may be. The zero rule is the schema's common one: 1 to 160 characters.
type Rule struct {
	Least    int  // characters; 0: 1, and -1: it may be empty
	Null     bool // the schema lets it be null
	Optional bool // the schema lets it be missing
	Lines    bool // it may have several lines
	Free     bool // it is for programs, which may mean what looks like a placeholder
	Unused   bool // nobody needs it, and so no placeholder is missed in it
	Any      bool // the schema does not mind whether it is text, a number, true or false
	Long     bool // the schema has no bound
	Max      int  // characters; 0: 160
}

// placeholders are what the original's files have where a user is to put in a value.
var (
	placeholders = regexp.MustCompile(`<[A-Z][A-Z0-9]*(?:[-_][A-Z0-9]+)*>`)
	published    = regexp.MustCompile(`<(?:PROJECT|PROJECT-MODEL|PROJECT-CERTS|PROJECT-CACERTS|SWARM-NETWORK|HOST_ADDRESS|LICENSE-SERVER-ADDRESS|CURRENT-PATH|APLS-IP|NETWORK-NAME|DNS|(?:SL|ML)-IP-[0-9]+)>`)
)

// Text returns a scalar as it is written, whatever type it has in YAML; null is empty.
func (v Value) Text(r Rule) string {
	if v.Node.Kind != yaml.ScalarNode {
		hint := "write text"
		if v.Node.Kind == yaml.MappingNode {
			hint = "write text, in quotes if it has a colon"
		}
		v.Find(Broken, "%s is %s: %s", v.Name, v.Kind(), hint)
		return ""
	}
	if v.Null() {
		if !r.Null {
			v.Find(Strict, "%s is null: write text", v.Name)
		}
		return ""
	}
	s := v.Node.Value
	if kind := v.Kind(); kind != "text" && !r.Any {
		v.Find(Strict, "%s is %s: quote it, as %q", v.Name, kind, s)
	}
	if len(s) > maxText {
		v.Find(Broken, "%s has %d bytes, at most %d are read", v.Name, len(s), maxText)
		return ""
	}
	for _, c := range s {
		if hidden(c) && (c != '\n' || !r.Lines) {
			v.Find(Broken, "%s has the control character %q: leave it out", v.Name, c)
			return ""
		}
	}
	most, least, n := r.Max, max(r.Least, 1), len([]rune(s))
	if most == 0 {
		most = 160
	}
	if r.Least < 0 {
		least = 0
	}
	if n < least || n > most && !r.Long {
		v.Find(Strict, "%s has %d characters: the original takes %d to %d", v.Name, n, least, most)
	}
	holder := placeholders
	if r.Free {
		holder = published
	}
	if p := holder.FindString(s); p != "" && !r.Unused {
		v.Find(Unfilled, "%s holds the placeholder %s: put its value in", v.Name, p)
	}
	return s
}

// hidden reports whether a rune of a text is not read where the text is shown, or has other runes be hidden or read in another order: people consent
// to what they see.
func hidden(c rune) bool {
	return c != '\t' && unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c)
}

// Hides reports whether a text of several lines has runes that are not shown as they are.
func Hides(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && hidden(c) })
}

// OneOf returns the word of a list that a scalar is, case ignored; "" with a finding for another.
func (v Value) OneOf(words ...string) string {
	s := v.Text(Rule{Long: true, Free: true})
	for _, w := range words {
		if strings.EqualFold(s, w) {
			if s != w {
				v.Find(Odd, "%s is %s: the original writes it %s", v.Name, s, w)
			}
			return w
		}
	}
	if v.Node.Kind == yaml.ScalarNode {
		v.Find(Broken, "%s %q is not known%s", v.Name, Excerpt(s), Meant(s, words))
	}
	return ""
}

// Meant names the word that was meant, or else all there are.
func Meant(typed string, known []string) string {
	if near := suggest.Word(Excerpt(typed), known); near != "" {
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

// Excerpt bounds what a message repeats of a file.
func Excerpt(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// Number returns a whole number within bounds; null is none.
func (v Value) Number(least, most int) (n int, given bool) {
	if v.Null() {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(v.Node.Value))
	if v.Node.Kind != yaml.ScalarNode || err != nil || n < least || n > most {
		if v.Node.Kind == yaml.ScalarNode {
			if p := placeholders.FindString(v.Node.Value); p != "" {
				v.Find(Unfilled, "%s holds the placeholder %s: put its value in", v.Name, p)
				return 0, false
			}
		}
		v.Find(Broken, "%s is %s %q: give a number from %d to %d", v.Name, v.Kind(), Excerpt(v.Node.Value), least, most)
		return 0, false
	}
	if v.Node.ShortTag() != "!!int" {
		v.Find(Strict, "%s is %s: write the number without quotes", v.Name, v.Kind())
	}
	return n, true
}

// Yes returns a truth value.
func (v Value) Yes() bool {
	switch strings.ToLower(v.Text(Rule{Any: true, Null: true, Long: true, Free: true})) {
	case "true", "yes", "on", "1":
		return true
	case "false", "no", "off", "0", "":
		return false
	}
	v.Find(Broken, "%s is %q: give true or false", v.Name, Excerpt(v.Node.Value))
	return false
}

// Placeholder returns the first placeholder that a text has, such as <CURRENT-PATH>, or nothing.
func Placeholder(s string) string { return placeholders.FindString(s) }
