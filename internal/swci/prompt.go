package swci

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/shell"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// prompt is what a session at the SWCI prompt has beyond single commands.
type prompt struct {
	shell    *shell.Shell
	given    [][]cmdline.Option  // run-swci's, for each of connectionOptions
	switched *atomic.Bool        // to another context than run-swci was started with
	names    map[string][]string // found for completion since the last command, by kind
	dir      string              // the user directory; "": none
	client   string              // of web mode, whose prompt it is: SPIFFE ID; "": none
	// allow returns an error for a line that is not to be run; nil: all are.
	allow func(ctx context.Context, c *Command, l cmdline.Line) error
}

// runPrompt runs the prompt in this process.
func (s *Session) runPrompt(ctx context.Context, opts *cli.Context) error {
	p, done, err := s.openPrompt(opts, "-")
	if err != nil {
		return err
	}
	defer done()
	return p.shell.Run(ctx)
}

// openPrompt prepares a session of several commands, to which run-swci's options apply. Its shell's Run takes lines from standard input,
// which errors name as input, or - for what has no name; its Do takes single ones. Without error done must be called.
func (s *Session) openPrompt(opts *cli.Context, input string) (p *prompt, done func(), err error) {
	dir := opts.String("usr-dir")
	if dir != "" {
		if dir, err = userDir(dir); err != nil {
			return nil, nil, err
		}
	}
	done = func() {}
	if s.own != nil {
		done = s.own.keep()
	}
	p = &prompt{dir: dir, switched: new(atomic.Bool)}
	for _, names := range s.Grammar.connectionOptions() {
		given := typed(opts, names)
		for i := range given {
			given[i].Value = everywhere(given[i].Name, given[i].Value)
		}
		p.given = append(p.given, given)
	}
	cfg := shell.Config{
		In: s.Env.Stdin, Name: input, Out: s.Env.Stdout, Dir: dir, Script: opts.String("init-script-name"), TTY: s.interactive(),
		Split: s.Grammar.lex,
		Run: func(ctx context.Context, words []string, out io.Writer) error {
			p.names = nil
			return s.atPrompt(ctx, p, words, out)
		},
		Complete: func(ctx context.Context, head string) []string { return candidates(ctx, s, p, head) },
	}
	if state, err := userdirs.Of(s.Env.Getenv).User(); err == nil {
		cfg.History = filepath.Join(state, "swarmd", "history")
	}
	if s.Signals != nil {
		cfg.Interrupts = s.Signals.Take
	}
	p.shell = shell.New(cfg)
	return p, done, nil
}

// everywhere makes of an option's value, where it names a file, one that means the same in every directory: the session changes its own.
func everywhere(option, value string) string {
	place := start.Places(new(start.SWCI))[option]
	dir, embedded := strings.CutPrefix(value, "embedded=")
	switch {
	case option == "identity" && embedded:
		return "embedded=" + absolute(dir)
	case place == start.File || place == start.Dir:
		return absolute(value)
	}
	return value
}

// userDir returns the user directory's absolute path.
func userDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find user directory: %w", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", exit.New(exit.Usage, "make the directory, or name another", "--usr-dir: %s: bad path", dir)
	}
	return abs, nil
}

// atPrompt runs one line's words.
func (s *Session) atPrompt(ctx context.Context, p *prompt, words []string, out io.Writer) error {
	if len(words) > 0 {
		// The original's Python class calls them ls() and pwd().
		if bare, called := strings.CutSuffix(strings.ToLower(words[0]), "()"); called && (bare == "ls" || bare == "pwd") {
			words = append([]string{bare}, words[1:]...)
		}
		if strings.EqualFold(words[0], "ls") {
			words = append([]string{"ls", "--"}, words[1:]...) // its options are its own
		}
	}
	l, err := s.Grammar.split(words)
	if err != nil {
		return err
	}
	c := s.Grammar.named(l.Words)
	if p.allow != nil {
		if err := p.allow(ctx, c, l); err != nil {
			return err
		}
	}
	if c != nil && c.Seed {
		return exit.New(exit.Usage, "leave the prompt first, or use another terminal", "%s is not for the prompt", c.compiled.keywords()[0])
	}
	if c != nil && c.Shell {
		for i, names := range s.Grammar.connectionOptions() {
			// Which swarm is meant comes first.
			if !s.Grammar.gives(l, names) && !(i == 0 && p.switched.Load()) {
				l.Options = append(l.Options, p.given[i]...)
			}
		}
	}
	one := *s
	one.prompt, one.JSON = p, false
	one.Env.Stdin, one.Env.Stdout, one.Env.Stderr = strings.NewReader(""), out, out
	one.Env.IsTerminal = func(io.Writer) bool { return false }
	return one.execute(ctx, l)
}

// connectionOptions are the global options that hold for a whole session, by what they say: which swarm is meant, which
// trust domains are accepted, in which form answers come, and who asks.
func (g *Grammar) connectionOptions() [][]string {
	var identity []string
	for _, f := range g.global {
		switch name := f.Names()[0]; name {
		case "sn", "context", "trust-domain", "spiffe-prefix", "o", "help":
		default:
			identity = append(identity, name)
		}
	}
	return [][]string{{"sn", "context"}, {"trust-domain"}, {"spiffe-prefix"}, {"o"}, identity}
}

// gives reports whether a line has one of the global options, under any of its names.
func (g *Grammar) gives(l cmdline.Line, options []string) bool {
	for _, f := range g.global {
		if slices.Contains(options, f.Names()[0]) && l.Has(f.Names()...) {
			return true
		}
	}
	return false
}

// typed returns those of the options that the user gave.
func typed(opts *cli.Context, names []string) (out []cmdline.Option) {
	for _, n := range names {
		if !opts.IsSet(n) {
			continue
		}
		if list, ok := opts.Value(n).(cli.StringSlice); ok {
			for _, v := range list.Value() {
				out = append(out, cmdline.Option{Name: n, Value: v, Given: true})
			}
			continue
		}
		out = append(out, cmdline.Option{Name: n, Value: fmt.Sprint(opts.Value(n)), Given: true})
	}
	return out
}

// promptHelp explains as the original does: the command's form, then a paragraph each.
func (s *Session) promptHelp(words []string) error {
	var b strings.Builder
	if len(words) == 0 {
		group := ""
		for _, c := range s.Grammar.commands {
			if c.Seed {
				continue
			}
			if c.Group != group {
				group = c.Group
				fmt.Fprintf(&b, "\n%s\n", group)
			}
			fmt.Fprintf(&b, "    %s\n", original(c))
		}
		b.WriteString("\n")
		s.prompt.shell.Print(s.Env.Stdout, b.String())
		return nil
	}
	found, err := s.Grammar.about(words)
	if err != nil {
		return err
	}
	for _, c := range found {
		fmt.Fprintf(&b, "\n%s\n\n%s\n", original(c), cmdline.Wrap(c.Details, 100, 0))
		if len(c.Flags) > 0 && len(found) == 1 {
			b.WriteString("\nOptions\n")
			printFlags(&b, c.Flags)
		}
	}
	if len(found) == 1 {
		for i, c := range s.Grammar.longer(found[0]) {
			if i == 0 {
				b.WriteString("\nSee also\n")
			}
			fmt.Fprintf(&b, "  %s\n", original(c))
		}
	}
	b.WriteString("\n")
	s.prompt.shell.Print(s.Env.Stdout, b.String())
	return nil
}

// original renders a pattern in the original's way: GET CONTRACT STATUS <name:string>, HELP [command:string].
func original(c *Command) string {
	var words []string
	for _, e := range c.compiled.parts {
		w := strings.ToUpper(e.word)
		if e.arg {
			w = strings.ToLower(e.word) + ":string"
		}
		switch {
		case e.optional:
			w = "[" + w + "]"
		case e.arg:
			w = "<" + w + ">"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}
