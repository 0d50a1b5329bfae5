package swci

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/shellwords"
)

// namesWait bounds how long somebody who presses the tabulator waits for names that an SN knows.
const namesWait = 2 * time.Second

// candidates are the words that may stand where the last word of head does: keywords, options, names of things that there are, files.
func candidates(ctx context.Context, s *Session, p *prompt, head string) []string {
	cut := strings.LastIndexByte(head, ' ') + 1
	typed, err := shellwords.Split(head[:cut])
	if err != nil || len(typed) > maxWords {
		return nil
	}
	word := head[cut:]
	if strings.HasPrefix(word, "-") {
		return s.Grammar.optionNames(typed)
	}
	l, err := s.Grammar.split(typed)
	if err != nil {
		return nil // the value of an option
	}
	upper := word == "" && len(typed) > 0 && typed[0] == strings.ToUpper(typed[0]) || word != "" && word == strings.ToUpper(word)
	if len(l.Words) > 0 && strings.EqualFold(l.Words[0], "help") {
		l.Words = l.Words[1:]
	}
	var out []string
	for _, next := range s.Grammar.following(l.Words) {
		switch {
		case next.kind == "" && upper:
			out = append(out, strings.ToUpper(next.word))
		case next.kind == "":
			out = append(out, next.word)
		case next.kind == fileKind:
			out = append(out, files(word)...)
		default:
			out = append(out, p.namesOf(ctx, s, next.kind)...)
		}
	}
	return out
}

// following is a word that may come next: a keyword, or, with a kind, a name of that kind.
type following struct{ word, kind string }

// fileKind is the kind of arguments that are paths. Other kinds are those that a command lists: "list contracts" for contract.
const fileKind = "file"

// following returns what may follow the words of an unfinished command.
func (g *Grammar) following(words []string) (out []following) {
	for _, c := range g.commands {
		if c.Seed {
			continue
		}
		for _, i := range c.compiled.next(0, words) {
			e := c.compiled.parts[i]
			f := following{word: e.word}
			if e.arg {
				f = following{kind: g.kind(c.compiled, i)}
			}
			if (!e.arg || f.kind != "") && !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// next returns which parts may stand behind words, beginning with part i.
func (p pattern) next(i int, words []string) (out []int) {
	if i == len(p.parts) {
		return nil
	}
	e := p.parts[i]
	if e.optional {
		out = p.next(i+1, words)
	}
	switch {
	case len(words) == 0:
		out = append(out, i)
	case e.rest:
		out = append(out, i)
	case e.arg || strings.EqualFold(words[0], e.word):
		out = append(out, p.next(i+1, words[1:])...)
	}
	return out
}

// kind says what an argument names, if there is a list of it: what it is called, or for a NAME the nearest keyword before it. What is
// created has no name yet.
func (g *Grammar) kind(p pattern, i int) string {
	name := strings.ToLower(p.parts[i].word)
	switch name {
	case "file", "dir":
		return fileKind
	case "host":
		if i > 0 && p.parts[i-1].word == "on" { // one that takes part in a task
			name = "node"
		}
	}
	kinds := []string{name}
	for _, e := range slices.Backward(p.parts[:i]) {
		if name == "name" && p.parts[0].word != "create" && !e.arg {
			kinds = append(kinds, e.word)
		}
	}
	for _, k := range kinds {
		if c := g.named(listOf(k)); c != nil && len(c.compiled.keywords()) == 2 {
			return k
		}
	}
	return ""
}

// listOf is the command that lists what is of a kind.
func listOf(kind string) []string { return []string{"list", kind + "s"} }

// namesOf are the names that the command which lists a kind shows.
func (p *prompt) namesOf(ctx context.Context, s *Session, kind string) []string {
	if known, ok := p.names[kind]; ok {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, namesWait)
	defer cancel()
	inWords := *p // whatever form the session has
	inWords.given = slices.Clone(p.given)
	for i, options := range s.Grammar.connectionOptions() {
		if slices.Contains(options, "o") {
			inWords.given[i] = nil
		}
	}
	var said strings.Builder
	var names []string
	if err := s.atPrompt(ctx, &inWords, listOf(kind), &said); err == nil {
		names = namesIn(said.String())
	}
	if p.names == nil {
		p.names = map[string][]string{}
	}
	p.names[kind] = names
	return names
}

// namesIn are the names in what a list answers in words: one a line, or a row of LIST NODES or of LIST JOBS. What is said beside it has blanks.
func namesIn(answer string) (names []string) {
	if header, rows, _ := strings.Cut(answer, "\n"); strings.HasPrefix(header, jobsHeader) {
		return jobsIn(rows)
	}
	for line := range strings.Lines(answer) {
		line = strings.TrimSuffix(line, "\n")
		switch cells := strings.Split(line, ","); {
		case len(cells) > containerColumn && cells[0] != "TYPE":
			names = append(names, cells[containerColumn])
		case len(cells) == 1 && line != "" && !strings.Contains(line, " "):
			names = append(names, line)
		}
	}
	return names
}

// jobsHeader begins what LIST JOBS answers.
const jobsHeader = "JOB  "

// jobsIn are the jobs in rows of LIST JOBS, which has each run of one.
func jobsIn(rows string) (names []string) {
	for line := range strings.Lines(rows) {
		name, _, row := strings.Cut(line, "  ")
		if row && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// containerColumn is where a line of LIST NODES has the node's name.
const containerColumn = 3

// optionNames are the options of the command that words name, and those of every command.
func (g *Grammar) optionNames(words []string) (out []string) {
	flags := slices.Clone(g.global)
	if l, err := g.split(words); err == nil {
		if c := g.named(l.Words); c != nil {
			flags = append(flags, c.Flags...)
		}
	}
	for _, f := range visible(flags) {
		out = append(out, cmdline.Dashed(f.Names()[0]))
	}
	return out
}

// files are the paths that begin with what is typed; a directory ends with a slash.
func files(typed string) (out []string) {
	dir, base := filepath.Split(typed)
	entries, err := os.ReadDir(first(dir, "."))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(base, ".") {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			name += "/"
		}
		out = append(out, dir+name)
	}
	return out
}
