package shellwords_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/shellwords"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                        nil,
		"  ":                      nil,
		"python3 train.py":        {"python3", "train.py"},
		" a\tb\nc ":               {"a", "b", "c"},
		`a "b c" 'd "e' f\ g`:     {"a", "b c", `d "e`, "f g"},
		`""`:                      {""},
		`--lr="0 1"x`:             {"--lr=0 1x"},
		`"a\"b\\c\d" 'e\f' \\`:    {`a"b\c\d`, `e\f`, `\`},
		`a\ b "\"" '\' "" x"y"z`:  {"a b", `"`, `\`, "", "xyz"},
		"a#b":                     {"a#b"},
		`sh -c 'echo $HOME # x;'`: {"sh", "-c", "echo $HOME # x;"},
	} {
		got, err := shellwords.Split(text)
		if diff := cmp.Diff(got, want); err != nil || diff != "" {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
	for _, bad := range []string{`"a`, `a 'b`, `a\`} {
		if got, err := shellwords.Split(bad); err == nil {
			t.Errorf("%q: got %q", bad, got)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`a "b c" \d 'e'`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := shellwords.Split(line)
		if err != nil {
			return
		}
		// The words, quoted again, are the same words.
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := shellwords.Split(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(words, again) {
			t.Errorf("%q: %q, then %q %v", line, words, again, err)
		}
	})
}

func FuzzJoin(f *testing.F) {
	f.Add("a", "", "it's \"$x\" \\ \n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		words := []string{strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, ""), strings.ToValidUTF8(c, "")}
		if got, err := shellwords.Split(shellwords.Join(words)); err != nil || !slices.Equal(got, words) {
			t.Errorf("%q came back as %q, %v", words, got, err)
		}
	})
}
