package text_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/swarmd/swarmd/internal/text"
)

func TestPlain(t *testing.T) {
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
		if got := text.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got := text.Line("a\tb\nc\x1b[mde"); got != "a b cde" {
		t.Errorf("Line: %q", got)
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"a\x1b]0;t\x07b", "\x1b[31m", "\u009b", "\x1b\x1b[\x18m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := text.Plain(s)
		if strings.ContainsFunc(got, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
			t.Errorf("Plain(%q) = %q: a control character is left", s, got)
		}
		if again := text.Plain(got); again != got {
			t.Errorf("Plain(%q) is not stable: %q", got, again)
		}
	})
}

func TestCutAndClip(t *testing.T) {
	for _, tt := range []struct {
		s         string
		limit     int
		cut, clip string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc", "…"},
		{"abcdef", 5, "abcde", "ab…"},
		{"aé", 2, "a", ""},
		{"é", 1, "", ""},
		{"a模", 4, "a模", "a模"},
		{"a模b", 4, "a模", "a…"},
		{"a\xffb", 9, "ab", "ab"},
		{"ab\xe6\xa8", 9, "ab", "ab"},
	} {
		if got := text.Cut(tt.s, tt.limit); got != tt.cut {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.s, tt.limit, got, tt.cut)
		}
		if got := text.Clip(tt.s, tt.limit); tt.limit >= 3 && got != tt.clip {
			t.Errorf("Clip(%q, %d) = %q, want %q", tt.s, tt.limit, got, tt.clip)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := text.Printable("a\nb\x1b[31mc\xffd\u202ee ü", '?'); got != "a?b?[31mc?d?e ü" {
		t.Errorf("got %q", got)
	}
	for s, want := range map[string]bool{"": true, "a~!": true, "a b": false, "ü": false, "\x7f": false} {
		if text.Visible(s) != want {
			t.Errorf("Visible(%q) is %t", s, !want)
		}
	}
}
