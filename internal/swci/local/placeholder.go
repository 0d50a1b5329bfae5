package local

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// placeholders are the words that options know between braces, each with its value for the peer with index i.
var placeholders = map[string]func(i int) string{
	"peer":  strconv.Itoa,
	"peer1": func(i int) string { return strconv.Itoa(i + 1) },
	"name":  cluster.SLName,
}

// braced matches a word between braces. Doubled braces quote it: "{{word}}" stands for "{word}". JSON has no such words.
var braced = regexp.MustCompile(`\{\{[A-Za-z_][A-Za-z0-9_]*\}\}|\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand returns s with the values of the peer with index i in place of placeholders.
func expand(s string, i int) string {
	return braced.ReplaceAllStringFunc(s, func(found string) string {
		if strings.HasPrefix(found, "{{") {
			return found[1 : len(found)-1]
		}
		if value := placeholders[found[1:len(found)-1]]; value != nil {
			return value(i)
		}
		return found
	})
}

// checkPlaceholders returns an error for the first placeholder of an option's value that is not known.
func checkPlaceholders(option, s string) error {
	for _, found := range braced.FindAllString(s, -1) {
		word := found[1 : len(found)-1]
		if strings.HasPrefix(found, "{{") || placeholders[word] != nil {
			continue
		}
		hint := "use {peer}, {peer1} or {name}"
		if near := suggest.Word(word, []string{"peer", "peer1", "name"}); near != "" {
			hint = "did you mean {" + near + "}?"
		}
		return exit.New(exit.Usage, hint+" {"+found+"} keeps the braces", "%s: placeholder %s is not known", option, found)
	}
	return nil
}
