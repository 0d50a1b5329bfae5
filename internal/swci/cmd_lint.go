package swci

import (
	"context"
	"fmt"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

func lintCommands() []*Command {
	const details = "Prints a line for each deviation from what the original documents, as FILE:LINE: what is wrong: fields that are missing, unknown or stand twice, values of another type, length or list of words, placeholders such as <CURRENT-PATH>. What the original lets pass works all the same: "
	return []*Command{
		{
			Pattern: "lint task FILE...", Group: "Tasks", Shell: true,
			Summary: "Check task files strictly",
			Details: details + "task files are read leniently where tasks are made of them.\n\nAsks no SN. Ends with exit code 1 if there is a deviation, and 5 if there is no such file.",
			Example: "lint task taskdefs/run_swarm.yaml",
			JSON:    tasks.Linted{},
			Run:     lint("Task definition is valid", taskfile.LintTask),
		},
		{
			Pattern: "lint profile FILE...", Group: "Tasks", Shell: true,
			Summary: "Check profiles of SWOPs strictly",
			Details: details + "profiles are read leniently where a SWOP is started; the original never looks at their nodes before it needs them.\n\nAsks no SN. Ends with exit code 1 if there is a deviation, and 5 if there is no such file.",
			Example: "lint profile swop/swop1_profile.yaml",
			JSON:    tasks.Linted{},
			Run:     lint("SWOP profile is valid", taskfile.LintProfile),
		},
	}
}

// lint checks the files that a command names; valid is what it says of one without fault.
func lint(valid string, check func(file string, data []byte) []*yamlfile.Finding) func(context.Context, *Session, Args) error {
	return func(_ context.Context, s *Session, args Args) error {
		if len(args.Rest) == 0 {
			return exit.New(exit.Usage, "name one file or more", "FILE is missing")
		}
		found, err := tasks.Lint(ownPaths(s, args.Rest...), check)
		if err != nil {
			return fmt.Errorf("lint: %w", err)
		}
		err = s.show(found, func() error {
			found.Print(s.Env.Stdout, valid)
			return nil
		})
		if err != nil {
			return err
		}
		return found.Err()
	}
}
