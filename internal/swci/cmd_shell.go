package swci

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// shellCommands are the prompt, and the words that only it knows.
func shellCommands() []*Command {
	return []*Command{
		{
			Pattern: promptWord, Group: "SWCI", Seed: true,
			Summary: "Start the SWCI prompt, at which every command can be typed",
			Details: "Runs the startup script of the user directory if there is one, then reads commands from the terminal, or from standard input, until exit or its end (Ctrl-D). Every command of this list can be typed there, with its options. Options that name a swarm or an identity apply to the whole session. Ctrl-C ends a command, not the prompt. docs/reference/swci.md has the details.\n\n" +
				"With --runtime docker (the default of scripts/run-swci) all this happens in a container, which sees of this host only the user directory, at /platform/swci/usr and /platform/swarm/usr, and the files that the options name. The options from --name on are for containers only, as in docker run.\n\n" +
				"With --web it serves programs over HTTPS in place of the prompt, with the same identity: docs/reference/swci.md, Web mode.\n\n" +
				"Exit code 1 means that something failed while EXIT ON FAILURE was on, or that the prompt could not be started.",
			Example: "run-swci --usr-dir usr --init-script-name swci-init --sn 10.0.0.1:30304",
			Flags:   swciFlags(),
			Run:     runSWCI,
		},
		{
			Pattern: "exit on failure [STATE]", Group: "SWCI", Shell: true, Prompt: true,
			Summary: "Choose whether a failed command ends the prompt",
			Details: "STATE is on or off, and on if not given. While it is on, the first command that fails ends script and prompt with exit code 1. When the prompt starts it is off.",
			Example: "exit on failure on",
			Run:     exitOnFailure,
		},
		{
			Pattern: "exit", Group: "SWCI", Shell: true, Prompt: true,
			Summary: "End the prompt",
			Details: "Ends script and prompt with exit code 0.",
			Example: "exit",
			Run: func(_ context.Context, s *Session, _ Args) error {
				s.prompt.shell.Exit()
				return nil
			},
		},
		{
			Pattern: "sleep SECONDS", Group: "SWCI", Shell: true,
			Summary: "Wait",
			Details: "Waits SECONDS seconds.",
			Example: "sleep 10",
			Run:     sleep,
		},
		{
			Pattern: "cd DIR", Group: "SWCI", Shell: true, Prompt: true,
			Summary: "Change the working directory",
			Details: "Files that later commands name are looked for there. /platform/swci/usr and /platform/swarm/usr are the user directory.",
			Example: "cd /platform/swarm/usr",
			Run: func(_ context.Context, s *Session, args Args) error {
				if err := s.prompt.shell.Chdir(args.Value("DIR")); err != nil {
					return exit.New(exit.NotFound, "", "%w", err)
				}
				return reportDir(s)
			},
		},
		{
			Pattern: "pwd", Group: "SWCI", Shell: true, Prompt: true,
			Summary: "Show the working directory",
			Details: "Prints the directory in which files that commands name are looked for.",
			Example: "pwd",
			Run:     func(_ context.Context, s *Session, _ Args) error { return reportDir(s) },
		},
		{
			Pattern: "ls [FILE...]", Group: "SWCI", Shell: true, Prompt: true,
			Summary: "List files",
			Details: "Lists files, or what is in directories; the working directory if none is named. A name may be a pattern, such as *.yaml. Of ls's options it knows -l, -a, -A, -d, -t, -S, -r and -R.",
			Example: "ls -l",
			Run: func(ctx context.Context, s *Session, args Args) error {
				return s.prompt.shell.List(ctx, s.Env.Stdout, args.Rest)
			},
		},
	}
}

func exitOnFailure(_ context.Context, s *Session, args Args) error {
	state := strings.ToUpper(first(args.Value("STATE"), "on"))
	if state != "ON" && state != "OFF" {
		return exit.New(exit.Usage, "use on or off", "%q is neither on nor off", args.Value("STATE"))
	}
	s.prompt.shell.ExitOnFailure(state == "ON")
	s.prompt.shell.Report(s.Env.Stdout, "EXIT ON FAILURE IS TURNED "+state)
	return nil
}

// maxSleep bounds sleep: a week.
const maxSleep = 7 * 24 * 3600

func sleep(ctx context.Context, _ *Session, args Args) error {
	seconds, err := strconv.ParseFloat(args.Value("SECONDS"), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxSleep) {
		return exit.New(exit.Usage, "give seconds, such as 10 or 0.5", "%.80q is no number of seconds up to %d", args.Value("SECONDS"), maxSleep)
	}
	return pause.For(ctx, time.Duration(seconds*float64(time.Second)))
}

func reportDir(s *Session) error {
	dir, err := s.prompt.shell.Getwd()
	if err != nil {
		return fmt.Errorf("find working directory: %w", err)
	}
	s.prompt.shell.Report(s.Env.Stdout, "Current Directory : "+dir)
	return nil
}
