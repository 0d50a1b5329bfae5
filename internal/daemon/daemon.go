// Package daemon is swarmd's command line: it turns flags, environment and file into the configuration of a node, runs
// it, and maps its end to an exit code. It holds no logic of a node.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity/spire/attestor"
	"github.com/swarmd/swarmd/internal/bridge/original"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/heap"
	"github.com/swarmd/swarmd/internal/launch/sudo"
	"github.com/swarmd/swarmd/internal/mountns"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/runjob"
)

// Env is all of the process that a command may touch.
type Env struct {
	Stdin          io.Reader // nil: none
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string // nil: no variables for a command that runs again under sudo
	Sudo           sudo.Sudo       // the zero value: the machine's
	// Signals ends the returned context at SIGINT or SIGTERM; a second signal ends the process at once.
	Signals func(context.Context) (context.Context, context.CancelFunc)

	args   []string      // as Main got them
	invite *guest        // what --invite, or an earlier start with it, brings; filled by withInvitation
	wait   time.Duration // of a doctor for somebody's answer; 0: stepLimit
	dry    bool          // a doctor only looks: nothing is kept
}

// OS is the environment of a real process.
func OS() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ,
		Signals: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
			context.AfterFunc(ctx, stop) // the default action again: a second signal kills
			return ctx, stop
		},
	}
}

// ExitError ends a command with a code of its own: the code of the ML program, say. Its text is printed unless empty.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Main runs one swarmd command and returns the exit code: 0 done, 1 any error (as the original's scripts do), or the ML
// program's own code for run-sl. It never exits the process itself.
func Main(args []string, env Env) int {
	if len(args) > 1 && args[1] == mountns.Command {
		return mountns.Become(args[2:])
	}
	if len(args) > 1 && args[1] == original.Command {
		return original.RunProgram(args[2:])
	}
	if len(args) > 1 && args[1] == runjob.Command {
		return runjob.Keep(args[2:])
	}
	if len(args) > 1 && args[1] == rendezvous.Command {
		return rendezvous.Begin(args[2:])
	}
	if len(args) > 1 && args[1] == hostpaths.Command {
		return hostpaths.Run(context.Background(), args[2:], env.Stdin, env.Stdout, env.Stderr)
	}
	ctx, stop := env.Signals(context.Background())
	defer stop()
	defer heap.Raise(env.Getenv)()
	env.args, env.invite = args, new(guest)
	if env.Sudo.UID == nil {
		env.Sudo = sudo.OS()
	}
	if env.Environ == nil {
		env.Environ = func() []string { return nil }
	}
	if isPlugin(args) {
		args = []string{args[0], attestor.Command}
	}
	if len(args) == 2 && args[1] == "--version" {
		args = []string{args[0], "version"}
	}
	args = doctorArgs(args)
	app := newApp(env)
	normal, err := normalise(app, args, env)
	if err == nil {
		normal, err = withFile(app, normal, env)
	}
	if err == nil {
		normal, err = withInvitation(ctx, app, normal, env)
	}
	if err == nil {
		err = wantedValue(app, app.RunContext(ctx, normal))
	}
	if err == nil {
		return 0
	}
	code := 1
	var exit *ExitError
	if errors.As(err, &exit) {
		code = exit.Code
	}
	if text := strings.TrimSpace(explain(err, progName(env.Getenv))); text != "" {
		fmt.Fprintln(env.Stderr, text)
	}
	return code
}

// progName is what the user called: scripts/run-sn and its siblings say so.
func progName(getenv func(string) string) string {
	if prog := getenv("SWARM_PROG"); prog != "" {
		return filepath.Base(prog)
	}
	return "swarmd"
}

// explain is an error as people read it: each problem on a line of its own after the command's name, with the remedy that
// the error carries. Indented lines (a program's last words) stay as they are.
func explain(err error, prog string) string {
	said := strings.TrimSpace(err.Error())
	var e interface{ Remedy() string }
	remedy := client.Remedy(err)
	if remedy == "" && errors.As(err, &e) {
		remedy = e.Remedy()
	}
	if remedy != "" && !strings.Contains(said, remedy) {
		said += ": " + remedy
	}
	var b strings.Builder
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, " ") && strings.TrimSpace(line) != "" {
			b.WriteString(prog + ": ")
		}
		body, end := strings.CutSuffix(line, "\n")
		b.WriteString(text.Plain(body)) // it may quote peers, programs and images
		if end {
			b.WriteString("\n")
		}
	}
	return b.String()
}

func newApp(env Env) *cli.App {
	app := &cli.App{
		Name:            "swarmd",
		Usage:           "peer-to-peer daemon for decentralised learning",
		HideVersion:     true,
		HideHelpCommand: true,
		// -e A=1,2 is one variable: repeated options are not split at commas.
		DisableSliceFlagSeparator: true,
		Reader:                    strings.NewReader(""),
		Writer:                    env.Stdout,
		ErrWriter:                 env.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("no command %q; commands are %s", c.Args().First(), strings.Join(commandNames(c.App), ", "))
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{snCommand(env), slCommand(env), recoverCommand(env), restoreCommand(env), healthCommand(env), authorityCommand(env), spireServerCommand(env), spireTokenCommand(env), pluginCommand(env), aplsCommand(env), swopCommand(env), doctorCommand(), versionCommand(env)},
	}
	app.Commands = append(app.Commands, doctorCommands(env)...)
	name := func(*cli.Context) error {
		for _, c := range app.Commands {
			c.HelpName = "swarmd " + c.Name
			if prog := progName(env.Getenv); prog == c.Name {
				c.HelpName = prog
			}
			c.CustomHelpTemplate = strings.ReplaceAll(help(c), "{{", `{{"{{"}}`) // a template, but there is nothing to fill in
		}
		return nil
	}
	_ = name(nil)
	app.Before = name // urfave/cli has put its own names over them by then
	return app
}

func commandNames(app *cli.App) []string {
	var names []string
	for _, c := range app.Commands {
		if !strings.HasPrefix(c.Name, doctorName+" ") {
			names = append(names, c.Name)
		}
	}
	return names
}

// command makes a command with the conventions of this daemon: no help sub-command, no arguments, usage errors as values.
func command(name, usage string, flags []cli.Flag, run cli.ActionFunc) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Flags: flags, HideHelpCommand: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("%s takes no argument, got %q; see %s --help", name, c.Args().First(), c.Command.HelpName)
			}
			return run(c)
		},
	}
}
