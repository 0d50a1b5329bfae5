package swci

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/version"
)

func helpCommand() *Command {
	return &Command{
		Pattern: "help [COMMAND...]", Group: "This host",
		Summary: "List all commands, or explain one",
		Details: "Without words it lists all commands and the options that each of them takes. With the words of a command it explains that one. The option --help does the same.",
		Example: "help get contract status",
		Run: func(_ context.Context, s *Session, args Args) error {
			return s.help(args.Rest)
		},
	}
}

func versionCommand() *Command {
	return &Command{
		Pattern: "version", Group: "This host",
		Summary: "Print swarmctl's version",
		Details: "Prints the version that the binary was built as, the commit when it is known, and the Go release.",
		Example: "version",
		JSON:    versionJSON{},
		Run: func(_ context.Context, s *Session, _ Args) error {
			v := versionJSON(version.Read())
			if s.JSON {
				return printJSON(s.Env.Stdout, v)
			}
			fmt.Fprintf(s.Env.Stdout, "swarmctl %s %s %s\n", v.Version, v.Commit, v.Go)
			return nil
		},
	}
}

// versionJSON is `version -o json`.
type versionJSON struct {
	Version string `json:"version" doc:"as tagged, or devel"`
	Commit  string `json:"commit" doc:"first 12 digits, or unknown"`
	Go      string `json:"go" doc:"Go release that built it"`
}

// help prints the list of commands, or one command's explanation.
func (s *Session) help(words []string) error {
	if s.prompt != nil {
		return s.promptHelp(words)
	}
	if len(words) == 0 {
		s.Grammar.overview(s.Env.Stdout)
		return nil
	}
	found, err := s.Grammar.about(words)
	switch {
	case err != nil:
		return err
	case len(found) == 1:
		explain(s.Env.Stdout, found[0])
		for i, c := range s.Grammar.longer(found[0]) {
			if i == 0 {
				fmt.Fprint(s.Env.Stdout, "\nSee also\n")
			}
			fmt.Fprintf(s.Env.Stdout, "  swarmctl %s\n", c.Pattern)
		}
	default:
		for _, c := range found {
			printRow(s.Env.Stdout, c.Pattern, c.Summary, 36)
		}
	}
	return nil
}

// about returns the command that words name, or those that begin with them.
func (g *Grammar) about(words []string) ([]*Command, error) {
	typed := strings.ToLower(strings.Join(words, " "))
	var found []*Command
	longest := ""
	for _, c := range g.commands {
		name := strings.Join(c.compiled.keywords(), " ")
		switch {
		case strings.HasPrefix(typed+" ", name+" ") && len(name) > len(longest):
			found, longest = []*Command{c}, name
		case strings.HasPrefix(name, typed+" ") && longest == "":
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil, exit.New(exit.Usage, g.suggest(words), "unknown command %.200q", strings.Join(words, " "))
	}
	return found, nil
}

// longer returns the commands whose names go on where c's ends, such as "wait for taskrunner" of "wait for".
func (g *Grammar) longer(c *Command) (all []*Command) {
	name := strings.Join(c.compiled.keywords(), " ") + " "
	for _, other := range g.commands {
		if strings.HasPrefix(strings.Join(other.compiled.keywords(), " "), name) {
			all = append(all, other)
		}
	}
	return all
}

// helpWidth is how many columns help takes.
const helpWidth = 100

const usage = `usage: swarmctl COMMAND [OPTIONS]
       swarmctl                     the SWCI shell, on a terminal
       swarmctl -f FILE             a script: one command a line; also from a pipe`

// firstSteps are what most people look for in the list of commands.
const firstSteps = `First steps
  swarmctl new my-project             a training program, with the command that runs it
  swarmctl local run --help           train a program in a whole swarm on this machine
  swarmctl list nodes --sn HOST       see a swarm that runs elsewhere
  swarmctl dashboard                  watch it in a browser, or with swarmctl top in a terminal
  swarmctl explain contract NAME      see what a training waits for`

func (g *Grammar) overview(w io.Writer) {
	fmt.Fprintf(w, "swarmctl operates a swarm, and runs whole swarms on this machine.\n\n%s\n\n%s\n", usage, firstSteps)
	group := ""
	for _, c := range g.commands {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(w, "\n%s\n", group)
		}
		printRow(w, c.Pattern, c.Summary, 36)
	}
	fmt.Fprintln(w, "\nOptions of every command")
	printFlags(w, g.global)
	fmt.Fprintln(w, "\n"+cmdline.Wrap(agentHelp, helpWidth, 0))
	fmt.Fprintln(w, "\nswarmctl help COMMAND explains one command.")
}

func explain(w io.Writer, c *Command) {
	options := " [OPTIONS]"
	if strings.Contains(c.Pattern, "[OPTION") {
		options = ""
	}
	fmt.Fprintf(w, "%s\n\nusage: swarmctl %s%s\n\n%s\n", c.Summary, c.Pattern, options, cmdline.Wrap(c.Details, helpWidth, 0))
	if len(c.Flags) > 0 {
		fmt.Fprintln(w, "\nOptions")
		printFlags(w, c.Flags)
	}
	fmt.Fprintf(w, "\nExample\n  swarmctl %s\n", c.Example)
}

func printFlags(w io.Writer, flags []cli.Flag) {
	for _, f := range visible(flags) {
		name, usage := flagText(f)
		printRow(w, name, usage, 27)
	}
}

// printRow prints a name, and from a column on what it means. A name that reaches the column has a line of its own.
func printRow(w io.Writer, name, meaning string, column int) {
	left := "  " + name
	if gap := column - utf8.RuneCountInString(left); gap > 0 {
		left += strings.Repeat(" ", gap)
	} else {
		left += "\n" + strings.Repeat(" ", column)
	}
	fmt.Fprintln(w, left+cmdline.Wrap(meaning, helpWidth, column))
}

// flagText returns an option as help shows it ("--sn HOST:PORT") and what it does, with its default.
func flagText(f cli.Flag) (name, usage string) {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return cmdline.Dashed(f.Names()[0]), ""
	}
	var names []string
	for _, n := range f.Names() {
		names = append(names, cmdline.Dashed(n))
	}
	name, usage = strings.Join(names, ", "), doc.GetUsage()
	if before, rest, found := strings.Cut(usage, "`"); found {
		value, after, _ := strings.Cut(rest, "`")
		name, usage = name+" "+value, before+value+after
	} else if doc.TakesValue() {
		name += " VALUE"
	}
	if def := strings.Trim(doc.GetDefaultText(), `"`); doc.TakesValue() && def != "" && def != "[]" && def != "0" && def != "0s" {
		usage += " (default " + cmdline.ShortTime(def) + ")"
	}
	return name, usage
}
