package shell

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		line string // with | for the cursor
		from string // candidates
		want string
		list string
	}{
		{"li|", "list ls", "list |", ""},
		{"li|", "list", "list |", ""},
		{"l|", "list ls", "l|", "list ls"},
		{"|", "exit cd", "|", "cd exit"},
		{"LI|", "LIST", "LIST |", ""},
		{"list con|", "contexts contracts contracts", "list cont|", ""},
		{"list cont| -o json", "contracts", "list contracts| -o json", ""},
		{"list co|x", "contracts", "list contracts |x", ""},
		{"cd d|", "dir/", "cd dir/|", ""},
		{"a|", "a\x1b[2Jb b", "a|", ""},
		{"é|", "éa éb", "é|", "éa éb"},
		{"get x|", "", "get x|", ""},
	} {
		head, tail, _ := strings.Cut(tt.line, "|")
		line, pos, choices := complete(head+tail, len(head), strings.Fields(tt.from))
		if got := line[:pos] + "|" + line[pos:]; got != tt.want {
			t.Errorf("%q: %q, want %q", tt.line, got, tt.want)
		}
		if diff := cmp.Diff(strings.Fields(tt.list), choices); diff != "" && len(choices)+len(tt.list) > 0 {
			t.Errorf("%q: choices (-want +got):\n%s", tt.line, diff)
		}
	}
	if line, _, _ := complete("cd a", 4, []string{"a b'c"}); line != `cd a\ b\'c ` {
		t.Errorf("a name with blanks: %q", line)
	}
}

func TestColumns(t *testing.T) {
	var out bytes.Buffer
	columns(&out, []string{"a", "bcd", "ef"}, 11)
	if want := "a    bcd\nef\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprint(i))
	}
	out.Reset()
	columns(&out, many, 0)
	if !strings.HasSuffix(out.String(), "\n99\nand 20 more\n") {
		t.Errorf("%q", out.String())
	}
}

func FuzzComplete(f *testing.F) {
	f.Add("list cont", 9, "contexts contracts")
	f.Add(`a\ é`, 3, "é b'c")
	f.Fuzz(func(t *testing.T, line string, pos int, from string) {
		if !utf8.ValidString(line) || pos < 0 || pos > len(line) || !utf8.ValidString(line[:pos]) {
			return // no line of a terminal
		}
		newLine, newPos, choices := complete(line, pos, strings.Split(from, " "))
		if newPos < 0 || newPos > len(newLine) || newLine[newPos:] != line[pos:] || !utf8.ValidString(newLine[:newPos]) || len(choices) == 1 {
			t.Errorf("%q at %d: %q at %d, %q", line, pos, newLine, newPos, choices)
		}
	})
}
