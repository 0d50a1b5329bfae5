package swci

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// Command is one row of the command table: shell, one-shot commands, help and docs/reference/cli.md are made from it.
type Command struct {
	Pattern string // "get contract status NAME"; see pattern for its language
	Group   string // heading in help
	Summary string // one line, capital letter, no period
	Details string // paragraphs, separated by empty lines
	Example string // one line as typed after the prompt
	Flags   []cli.Flag
	JSON    any  // zero value of the struct that -o json prints, whose tags json and doc describe it; nil when documented elsewhere
	Shell   bool // a word of the SWCI language too; false for tools of the host
	Prompt  bool // a word of the SWCI prompt only
	Seed    bool // one of the original's commands: exit code 1 on any error
	// Verbatim: what the last argument takes are words, also if they look like options.
	Verbatim bool
	Run      func(ctx context.Context, s *Session, args Args) error

	compiled pattern
}

// Args is what the user gave to one command.
type Args struct {
	Opts     *cli.Context // the command's own options and the global ones
	Rest     []string     // words taken by an argument that ends in "..."
	values   map[string]string
	keywords map[string]bool
}

// Value returns the word given for the argument called name (in upper case), or "" for an optional one left out.
func (a Args) Value(name string) string { return a.values[name] }

// Has reports whether the optional keyword was typed.
func (a Args) Has(keyword string) bool { return a.keywords[keyword] }

// Grammar is the compiled command table. It is safe for concurrent use.
type Grammar struct {
	commands []*Command
	global   []cli.Flag
}

// Commands returns the table in the order of help.
func (g *Grammar) Commands() []*Command { return g.commands }

// NewGrammar compiles the command table of swarmctl. An error is a mistake in the table.
func NewGrammar() (*Grammar, error) {
	g := &Grammar{global: globalFlags()}
	for _, group := range [][]*Command{dashboardCommands(), topCommands(), trackCommands(), logCommands(), eventCommands(), nodeCommands(), admitCommands(), inviteCommands(), banCommands(), healthCommands(), figureCommands(), portCommands(), doctorCommands(), identityCommands(), contractCommands(), historyCommands(), perfdataCommands(), haltCommands(), taskCommands(), approveCommands(), lintCommands(), assignmentCommands(), jobCommands(), runJobCommands(), jobStatusCommands(), artifactCommands(), forwardCommands(), taskrunnerCommands(), assignCommands(), modelCommands(), ledgerCommands(), auditCommands(), rightsCommands(), backupCommands(), contextCommands(), contextInfoCommands(), waitCommands(), shellCommands(), hostCommands()} {
		for _, c := range group {
			p, err := compilePattern(c.Pattern)
			if err != nil {
				return nil, err
			}
			c.compiled = p
			g.commands = append(g.commands, c)
		}
	}
	return g, nil
}

// find returns the command that words name and its arguments.
func (g *Grammar) find(words []string) (*Command, Args, error) {
	if len(words) > maxWords {
		return nil, Args{}, exit.New(exit.Usage, "", "more than %d words", maxWords)
	}
	named := g.named(words)
	if named == nil {
		return nil, Args{}, exit.New(exit.Usage, g.suggest(words), "unknown command %.200q", strings.Join(words, " "))
	}
	args, err := named.compiled.match(words)
	if err != nil {
		return named, Args{}, &exit.Error{Status: exit.Usage, Err: err, Hint: "swarmctl help " + strings.Join(named.compiled.keywords(), " ")}
	}
	return named, args, nil
}

// nearestCommand is the command whose keywords have so many mistakes at most in what was typed; "" for none. Behind them arguments may stand.
// A first word that is right counts for more than others.
func nearestCommand(words, names []string, mistakes int) string {
	for n := min(len(words), 4); n > 1; n-- {
		var long, begun []string
		for _, name := range names {
			if strings.Count(name, " ")+1 != n {
				continue
			}
			long = append(long, name)
			if first, _, _ := strings.Cut(name, " "); strings.EqualFold(first, words[0]) {
				begun = append(begun, name)
			}
		}
		typed := strings.Join(words[:n], " ")
		for _, of := range [][]string{begun, long} {
			if near := suggest.Word(typed, of); near != "" && suggest.Distance(typed, near) <= mistakes {
				return near
			}
		}
	}
	return ""
}

// suggest names the commands that begin as words do, else the command nearest to what was typed.
func (g *Grammar) suggest(words []string) string {
	typed := strings.ToLower(strings.Join(words[:min(len(words), 3)], " "))
	var names, same, begun []string
	for _, c := range g.commands {
		name := strings.Join(c.compiled.keywords(), " ")
		names = append(names, name)
		if strings.HasPrefix(name, typed+" ") {
			begun = append(begun, c.Pattern)
		}
		if strings.EqualFold(c.compiled.keywords()[0], words[0]) {
			same = append(same, name)
		}
	}
	if near := nearestCommand(words, same, 1); near != "" && len(words) == strings.Count(near, " ")+1 {
		return "did you mean \"swarmctl " + near + "\"?" // list context means list contexts, though list context env goes on
	}
	if len(begun) > 0 {
		on := "it goes on: swarmctl " + strings.Join(begun, ", swarmctl ")
		if near := neighbour(words[0], names); len(words) == 1 && near != "" {
			return on + "; " + near // who types init need not mean a job
		}
		return on
	}
	if near := nearestCommand(words, names, 2); near != "" {
		return "did you mean \"swarmctl " + near + "\"?"
	}
	if len(same) > 1 {
		return "swarmctl knows: " + strings.Join(same, ", ")
	}
	if near := neighbour(words[0], names); near != "" {
		return near
	}
	if near := suggest.Word(typed, names); near != "" {
		return "did you mean \"swarmctl " + near + "\"?"
	}
	return "swarmctl help lists all commands"
}
