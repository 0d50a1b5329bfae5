package meta

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// gone are words of ours that the field has others for, with those. They may not come back: neither in a name, nor in a comment, a
// message or a document.
var gone = map[string]string{
	`blends?`:       "combination",
	`book`:          "ledger file",
	`chores?`:       "watchdog",
	`decider`:       "planner",
	`disown(ed|s)?`: "abort",
	`doorman`:       "admission",
	`(earlier|next|later|another|new|old) (life|lives)`: "incarnation, previous run, next run",
	`givers?`:               "distributor",
	`good-?byes?`:           "leave",
	`hearsay`:               "indirect report",
	`intakes?`:              "receive",
	`is had from`:           "comes from",
	`(is|was|are) taken up`: "adopted",
	`manners?`:              "call options",
	`patience`:              "timeout",
	`port ?hold|leftover`:   "port owner, orphan",
	`scenes?`:               "snapshot",
	`snlink`:                "peerconn",
	`take ?up`:              "adopt",
	`tells? whether`:        "reports whether",
	`traits?`:               "capabilities",
	`walls|walled`:          "isolation",
}

// orders are verbs that a log message may not begin with: it says what happened, not what to do.
var orders = strings.Fields(`add begin bind change check close connect copy create decode delete dial encode end find follow forget get
	keep leave list look make note open parse pin put read register remove report resume run save say send serve set sign start stop
	store sync take tell try update use verify wait watch write`)

// anyGone finds all of them.
var anyGone = regexp.MustCompile(`(?i)\b(` + strings.Join(slices.Sorted(maps.Keys(gone)), "|") + `)\b`)

// insteadOf is what to say for a word that anyGone has found.
func insteadOf(hit string) string {
	for word, say := range gone {
		if regexp.MustCompile(`(?i)^(` + word + `)$`).MatchString(hit) {
			return say
		}
	}
	return "another word"
}

// checkWords finds words that may not come back.
func checkWords(r *repo) (found []violation) {
	look := func(path, text string) {
		for _, hit := range anyGone.FindAllString(text, -1) {
			found = append(found, violation{path, fmt.Sprintf("says %q: say %s", hit, insteadOf(hit))})
		}
	}
	for _, p := range r.packages {
		for _, s := range p.files {
			if !s.generated && !strings.HasPrefix(s.path, "internal/meta/") {
				look(s.path, words(s.ast))
			}
		}
	}
	for path, f := range r.files {
		if strings.HasSuffix(path, ".md") && path != "CHANGELOG.md" {
			look(path, f.text)
		}
	}
	slices.SortFunc(found, func(a, b violation) int { return strings.Compare(a.subject+a.message, b.subject+b.message) })
	return slices.Compact(found)
}

// words are a file's names, each divided into its words, its comments and its strings. The tags of fields are none of them: formats are
// frozen.
func words(f *ast.File) string {
	var out strings.Builder
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names[n.Name] = true
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && !strings.Contains(text, `json:"`) {
				out.WriteString(text + "\n")
			}
		}
		return true
	})
	for _, group := range f.Comments {
		out.WriteString(group.Text() + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out.WriteString(divided(name) + "\n")
	}
	return out.String()
}

// divided is a name with blanks between its words.
func divided(name string) string {
	var out strings.Builder
	previous := ' '
	for _, c := range name {
		if unicode.IsUpper(c) && unicode.IsLower(previous) || c == '_' {
			out.WriteByte(' ')
		}
		if c != '_' {
			out.WriteRune(c)
		}
		previous = c
	}
	return out.String()
}

// checkLogs finds log messages that are orders.
func checkLogs(r *repo) (found []violation) {
	for _, p := range r.packages {
		for _, s := range p.files {
			if s.test || s.generated {
				continue
			}
			for _, message := range logged(s.ast) {
				first, _, _ := strings.Cut(message, " ")
				if slices.Contains(orders, strings.TrimRight(first, ":,;")) {
					found = append(found, violation{s.path, fmt.Sprintf("logs %q, which is an order: say what happened, such as \"could not %s …\"", message, first)})
				}
			}
		}
	}
	return found
}

// logged are the texts of a file's log messages, as far as they begin with a literal.
func logged(f *ast.File) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		level, withContext := strings.CutSuffix(sel.Sel.Name, "Context")
		at := 0
		if withContext {
			at = 1
		}
		if !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, level) || len(call.Args) <= at {
			return true
		}
		if lit, ok := call.Args[at].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}

// TestDivided shows what the words of a name are.
func TestDivided(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"tellWalls": "tell Walls", "SNList": "SNList", "a_b": "a b", "portHold": "port Hold"} {
		if got := divided(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
