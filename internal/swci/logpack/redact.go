package logpack

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
)

const (
	// leftOut stands for what is a secret.
	leftOut = "[left out]"
	// maxLine bounds a line in bytes; the rest of a longer one is left out.
	maxLine = 64 << 10
)

var secrets = []struct {
	find *regexp.Regexp
	with string
}{
	// An invitation has the secret by which a host joins.
	{regexp.MustCompile(`swarm-invitation-[0-9]\S*`), leftOut},
	// Options: -joinToken X, --token=X.
	{regexp.MustCompile(`(?i)(\B--?[a-z-]*` + secretName + `[a-z-]*[ =]+)("[^"]*"|'[^']*'|[^\s",]+)`), "${1}" + leftOut},
	// The same in the JSON of a list of arguments.
	{regexp.MustCompile(`(?i)("--?[a-z-]*` + secretName + `[a-z-]*"\s*,\s*)"(?:[^"\\]|\\.)*"`), `${1}"` + leftOut + `"`},
	// Assignments and fields: PASSWORD=x, "password": "x", Password: x. What follows on the line may belong to it.
	{regexp.MustCompile(`(?i)(["']?[a-z0-9_.-]*` + secretName + `[a-z0-9_.-]*["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|\S.*)`), "${1}" + leftOut},
	// The same in XML, in .netrc, and where the name stands beside.
	{regexp.MustCompile(`(?i)(<[a-z0-9:_.-]*` + secretName + `[a-z0-9:_.-]*(?:\s[^<>]*)?>)[^<]+`), "${1}" + leftOut},
	{regexp.MustCompile(`(?i)\b(login\s+\S+\s+password\s+)\S+`), "${1}" + leftOut},
	{regexp.MustCompile(`(?i)(\b(?:name|key)["']?\s*[:=]\s*["']?[a-z0-9_.-]*` + secretName + `[a-z0-9_.-]*["']?\s*,\s*["']?value["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}\]]+)`), "${1}" + leftOut},
	// A field that is a secret by its whole name.
	{regexp.MustCompile(`(?i)((?:^|[\s{,"'])(?:auth|pass|pwd|psk)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^"'\s{\[|>&#][^\s,}\]]*)`), "${1}" + leftOut},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`), "${1} " + leftOut},
	// Tokens by their form: of code hosts, model hubs, clouds and chats, and JSON in base64, as tokens and registries' credentials are.
	{regexp.MustCompile(`\b(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{16,}[\w.=+/-]*)`), leftOut},
	// Users of URLs.
	{regexp.MustCompile(`://[^/\s@"']*:[^/\s@"']*@`), "://" + leftOut + "@"},
}

var (
	keyBegins = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnds   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
)

// redact returns a document or a text without what looks like a secret: passwords and tokens by their names, private keys, users of URLs,
// invitations. It knows no secret that has neither a name nor a form.
func redact(data []byte) []byte {
	if doc, ok := redactJSON(data); ok {
		return append(doc, newlines(data)...)
	}
	return redactText(data)
}

// newlines is what ends data.
func newlines(data []byte) []byte { return data[len(bytes.TrimRight(data, "\n")):] }

// redactText is redact of text: YAML, files of variables, logs.
func redactText(text []byte) []byte {
	var out bytes.Buffer
	r := &redacter{inKey: beginsInKey(text)}
	lines := bufio.NewReaderSize(bytes.NewReader(text), maxLine)
	for {
		raw, err := lines.ReadSlice('\n')
		line, whole := string(bytes.TrimSuffix(raw, []byte("\n"))), true
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
			whole = false
		}
		if err != nil && len(raw) == 0 {
			return out.Bytes() // io.EOF: nothing else comes of memory
		}
		out.WriteString(r.line(line))
		if !whole {
			out.WriteString(" [cut]")
		}
		if !errors.Is(err, io.EOF) {
			out.WriteByte('\n')
		}
	}
}

// beginsInKey reports whether text is the end of one in which a private key began.
func beginsInKey(text []byte) bool {
	end := keyEnds.FindIndex(text)
	return end != nil && !keyBegins.Match(text[:end[0]])
}

// redacter reads text line by line.
type redacter struct {
	inKey bool // the next line is inside of a private key
	under int  // the indentation of a secret's name, whose value goes on below, plus 1; 0: there is none
	value bool // the next line is the value of an option, or of a name that stands above
}

var (
	// secretField is a YAML field: indentation, which a list's hyphens belong to, and name.
	secretField = regexp.MustCompile(`(?i)^([\s-]*)["']?([a-z0-9_.-]+)["']?\s*:(?:\s|$)`)
	// nameField is the name of what stands in the field value, above or below.
	nameField = regexp.MustCompile(`(?i)^[\s-]*["']?(?:name|key)["']?\s*:\s*["']?([a-z0-9_.-]+)["']?,?\s*$`)
	// valueField is that field.
	valueField = regexp.MustCompile(`(?i)^([\s-]*["']?value["']?\s*:\s*)\S.*$`)
	// listWord is a word of a list, one a line.
	listWord = regexp.MustCompile(`^([\s-]*?(?:-\s+)?["']?)(-[^\s"',=]+|[^\s"',]+)["']?,?\s*$`)
)

// line is redact of one line.
func (r *redacter) line(line string) string {
	if r.inKey || keyBegins.MatchString(line) {
		return r.withoutKeys(line)
	}
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	deeper := r.under > 0 && (indent >= r.under || indent == r.under-1 && strings.HasPrefix(line[indent:], "- "))
	if deeper && strings.TrimSpace(line) != "" {
		return line[:indent] + leftOut
	}
	behind := r.value
	r.value = false
	if strings.TrimSpace(line) == "" {
		return line
	}
	r.under = 0
	mayHave := hinted(line)
	if mayHave {
		if doc, ok := redactJSON([]byte(line)); ok {
			return string(doc)
		}
	}
	if behind {
		if m := valueField.FindStringSubmatch(line); m != nil {
			return m[1] + leftOut
		}
		if m := listWord.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[2], "-") {
			return m[1] + leftOut
		}
	}
	if !mayHave {
		return line
	}
	if m := secretField.FindStringSubmatch(line); m != nil && isSecret(m[2]) {
		r.under = len(m[1]) + 1
	}
	if m := nameField.FindStringSubmatch(line); m != nil {
		r.value = isSecret(m[1])
	}
	if m := listWord.FindStringSubmatch(line); m != nil {
		r.value = r.value || isSecretOption(m[2])
	}
	return redactValues(line)
}

// withoutKeys is redact of a line that has a part of a private key.
func (r *redacter) withoutKeys(line string) string {
	var kept strings.Builder
	for line != "" {
		if r.inKey {
			end := keyEnds.FindStringIndex(line)
			if end == nil {
				return kept.String()
			}
			line, r.inKey = line[end[1]:], false
			continue
		}
		begin := keyBegins.FindStringIndex(line)
		if begin == nil {
			break
		}
		kept.WriteString(redactValues(line[:begin[0]]) + leftOut)
		line, r.inKey = line[begin[1]:], true
	}
	return kept.String() + redactValues(line)
}

func redactValues(line string) string {
	for _, s := range secrets {
		line = s.find.ReplaceAllString(line, s.with)
	}
	return line
}
