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

// secretName is a part of names whose values are secrets.
const secretName = `(?:passw(?:or)?d|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|private[_-]?key|authorization|identitytoken|invitation)`

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
	{regexp.MustCompile(`(?i)(["']?[a-z0-9_.-]*` + secretName + `[a-z0-9_.-]*["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^"'\s].*)`), "${1}" + leftOut},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}`), "${1} " + leftOut},
	// Users of URLs.
	{regexp.MustCompile(`://[^/\s@"']*:[^/\s@"']*@`), "://" + leftOut + "@"},
}

var (
	keyBegins = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnds   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
)

// redact returns text without what looks like a secret: passwords and tokens by their names, private keys, users of URLs,
// invitations. It knows no secret that has neither a name nor a form.
func redact(text []byte) []byte {
	var out bytes.Buffer
	inKey := false
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
		line = redactLine(line, &inKey)
		out.WriteString(line)
		if !whole {
			out.WriteString(" [cut]")
		}
		if !errors.Is(err, io.EOF) {
			out.WriteByte('\n')
		}
	}
}

// redactLine is redact of one line; inKey says whether it begins inside of a private key.
func redactLine(line string, inKey *bool) string {
	var kept strings.Builder
	for line != "" {
		if *inKey {
			end := keyEnds.FindStringIndex(line)
			if end == nil {
				return kept.String()
			}
			line, *inKey = line[end[1]:], false
			continue
		}
		begin := keyBegins.FindStringIndex(line)
		if begin == nil {
			break
		}
		kept.WriteString(redactValues(line[:begin[0]]) + leftOut)
		line, *inKey = line[begin[1]:], true
	}
	return kept.String() + redactValues(line)
}

func redactValues(line string) string {
	for _, s := range secrets {
		line = s.find.ReplaceAllString(line, s.with)
	}
	return line
}
