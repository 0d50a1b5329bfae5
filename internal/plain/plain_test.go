package plain_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/swarmd/swarmd/internal/plain"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"plain, ünïcode 模型 👩‍⚕️\ttab":        "plain, ünïcode 模型 👩‍⚕️\ttab",
		"\x1b[31mred\x1b[0m":                 "red",
		"\x1b[2J\x1b[1;1Hgone":               "gone",
		"a\x1b]0;title\x07b":                 "ab",
		"a\x1b]8;;http://x\x1b\\link\x1b[m":  "alink",
		"\u009b31mred \u009d0;title\u009cb":  "red b",
		"a\x1bPq#0\x1b\\b":                   "ab",
		"a\x1b(Bb":                           "ab",
		"bell\a back\b cr\r nul\x00 del\x7f": "bell back cr nul del",
		"user\u202egnp.exe":                  "usergnp.exe",
		"cut \x1b[3":                         "cut ",
		"cut \x1b":                           "cut ",
		"lines\nare joined":                  "linesare joined",
	} {
		if got := plain.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := plain.Line("a\tb\nc\x1b[mde"); got != "a b cde" {
		t.Errorf("Line: %q", got)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"a\x1b]0;t\x07b", "\x1b[31m", "\u009b", "\x1b\x1b[\x18m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := plain.Text(s)
		if strings.ContainsFunc(got, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
			t.Errorf("Text(%q) = %q: a control character is left", s, got)
		}
		if again := plain.Text(got); again != got {
			t.Errorf("Text(%q) is not stable: %q", got, again)
		}
	})
}
