package jobfile

import (
	"errors"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Fill puts the values of variables in the place of each ${NAME} of a text, and $ in that of $$. Other dollars stay: they are the program's.
// Where there is no value of a name, unknown is it.
func Fill(s string, value func(name string) (string, bool)) (filled, unknown string, err error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		m := variable.FindStringSubmatch(s)
		switch {
		case strings.HasPrefix(s, "$$"):
			b.WriteByte('$')
			s = s[2:]
			continue
		case m == nil && strings.HasPrefix(s, "${"):
			return "", "", errors.New("it has ${ without a name and }: write ${NAME}, or $$ for a $ of the program's own")
		case m == nil:
			b.WriteByte('$')
			s = s[1:]
			continue
		}
		v, ok := value(m[1])
		if !ok && unknown == "" {
			unknown = m[1]
		}
		b.WriteString(v)
		s = s[len(m[0]):]
	}
	b.WriteString(s)
	return b.String(), unknown, nil
}

// fillable says why a text can't be filled, whatever the variables are; nil if it can.
func fillable(s string) error {
	_, _, err := Fill(s, func(string) (string, bool) { return "", true })
	return err
}
