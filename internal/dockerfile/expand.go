package dockerfile

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	argument = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?$`)
	variable = regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:[-+])([^{}$]*))?\})`)
)

// arg keeps an ARG that stands before the first FROM, since names of images may have it in them.
func (f *File) arg(rest string) error {
	m := argument.FindStringSubmatch(rest)
	if m == nil {
		return fmt.Errorf("ARG %.80q: want ARG NAME or ARG NAME=VALUE", rest)
	}
	value := m[2]
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	value, err := f.expand(value)
	if err != nil {
		return err
	}
	f.args = append(f.args, arg{m[1], value})
	return nil
}

// expand puts the values of ARGs where they are meant.
func (f *File) expand(text string) (string, error) {
	out := variable.ReplaceAllStringFunc(text, func(s string) string {
		m := variable.FindStringSubmatch(s)
		value := f.value(m[1] + m[2])
		switch {
		case m[3] == ":-" && value == "", m[3] == ":+" && value != "":
			return m[4]
		}
		return value
	})
	if strings.ContainsAny(out, "$\\\"'` \t") {
		return "", fmt.Errorf("the name of an image can't be told from %.80q: write it out", text)
	}
	return out, nil
}

// value is an ARG's, the last one's of its name.
func (f *File) value(name string) (value string) {
	for _, a := range f.args {
		if a.name == name {
			value = a.value
		}
	}
	return value
}
