package jobfile

import (
	"errors"
	"fmt"
	"strings"
)

// maxFilled is how many bytes a text has once its variables are filled in: a few that name each other would make any host's memory too small.
const maxFilled = 16 << 10

// Fill puts the values of variables in the place of each ${NAME} of a text, and $ in that of $$. Other dollars stay: they are the program's.
// Where there is no value of a name, unknown is it. A text that would be too long is an error.
func Fill(s string, value func(name string) (string, bool)) (filled, unknown string, err error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		name, is := leadingName(s)
		switch {
		case strings.HasPrefix(s, "$$"):
			b.WriteByte('$')
			s = s[2:]
			continue
		case !is && strings.HasPrefix(s, "${"):
			return "", "", errors.New("it has ${ without a name and }: write ${NAME}, or $$ for a $ of the program's own")
		case !is:
			b.WriteByte('$')
			s = s[1:]
			continue
		}
		v, ok := value(name)
		if !ok && unknown == "" {
			unknown = name
		}
		if b.Len()+len(v) > maxFilled {
			return "", "", fmt.Errorf("it has more than %d bytes once its variables are filled in: put it into a file of the source", maxFilled)
		}
		b.WriteString(v)
		s = s[len("${")+len(name)+len("}"):]
	}
	b.WriteString(s)
	return b.String(), unknown, nil
}

// leadingName returns the name of the ${NAME} with which a text begins.
func leadingName(s string) (name string, is bool) {
	name, _, is = strings.Cut(strings.TrimPrefix(s, "${"), "}")
	if !is || !strings.HasPrefix(s, "${") || name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return "", false
		}
	}
	return name, true
}

// fillable says why a text can't be filled, whatever the variables are; nil if it can.
func fillable(s string) error {
	_, _, err := Fill(s, func(string) (string, bool) { return "", true })
	return err
}
