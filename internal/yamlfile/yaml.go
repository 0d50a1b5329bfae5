package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errNothing is the error of a file that has no value.
var errNothing = errors.New("the file is empty")

// secondDocument is the error of a file that has more values than one.
type secondDocument struct{ line int }

// Error implements error.
func (s *secondDocument) Error() string {
	return fmt.Sprintf("line %d: a second document begins", s.line)
}

// onlyDocument parses a file that has one value. YAML allows a line of tabs, and a comment behind tabs, and the parser does not.
func onlyDocument(data []byte) (*yaml.Node, error) {
	root, err := parseSingle(data)
	if err != nil {
		if again, other := withoutTabs(data, err); other == nil {
			return again, nil
		}
	}
	return root, err
}

// parseSingle parses a file that has one value. A --- at the end begins nothing.
func parseSingle(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root, second yaml.Node
	switch err := dec.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, errNothing
	case err != nil:
		return nil, err
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, err
	case !nothing(&second):
		return nil, &secondDocument{second.Line}
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return nil, errNothing
	}
	return &root, nil
}

// nothing reports whether a document has no value.
func nothing(doc *yaml.Node) bool {
	return len(doc.Content) == 1 && doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == ""
}

// notUTF8 returns the line of the first byte that is no UTF-8; 0: there is none, or the file says that it is in UTF-16, which YAML allows.
func notUTF8(data []byte) int {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return 0
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(bytes.ToValidUTF8(line, nil)) < len(line) {
			return n
		}
	}
	return 0
}

// yamlLine is where the parser's errors have the line.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// notYAML says that a file can't be parsed, and what is probably the reason.
func (d *Document) notYAML(err error, data []byte) {
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	line, _ := strconv.Atoi(m[1])
	hint := ""
	switch {
	case strings.Contains(m[2], "cannot start any token"):
		hint = "; use blanks, not tabs, before a field, and quote a text that begins with @, ` or %"
	case strings.Contains(m[2], "tab character"):
		hint = "; use blanks, not tabs, before a field"
	case bytes.Contains(data, []byte("\u00a0")):
		hint = "; the file has blanks of a web page, which do not break (U+00A0): write plain ones"
	case strings.Contains(m[2], "mapping values are not allowed"):
		hint = "; quote a text that has a colon before a blank, and indent fields alike"
	case strings.Contains(m[2], "control characters"):
		line, hint = controlLine(data), "; leave it out"
	}
	d.Find(Broken, line, "it is no YAML: %s%s", m[2], hint)
}

// controlLine returns the line of the first control character that no YAML may have, or else 1.
func controlLine(data []byte) int {
	i := bytes.IndexFunc(data, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f })
	return 1 + bytes.Count(data[:max(i, 0)], []byte("\n"))
}
