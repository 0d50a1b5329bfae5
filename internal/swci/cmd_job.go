package swci

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/swci/jobs"
	"github.com/swarmd/swarmd/internal/text"
)

func jobCommands() []*Command {
	return []*Command{
		{
			Pattern: "explain job FILE", Group: "Jobs",
			Summary: "Show what a job file would run: expanded, with each member's command and variables",
			Details: "FILE is a job file, as docs/reference/jobs.md describes it, or a file of Oracle's: train.yaml of ads opctl, a job of ADS, or one of OCI Data Science with several nodes. What of that is ignored, or is another thing here, is shown with its line, and what it becomes. Shows the job with all that its framework adds and all that holds by default, its groups, what each member would run and with which variables, and what the hosts must have before anything starts. What is said in the place of the file's values is shown beside these.\n\n" +
				"Nothing is run, and no swarm is asked: hosts and addresses are examples. Ends with exit code 1 if the file is no job, and says where.",
			Example: "explain job job.yaml --replicas 4 -e EPOCHS=5",
			Flags:   overrideFlags(),
			JSON:    jobs.Explained{},
			Run:     explainJob,
		},
		{
			Pattern: "init job DIR", Group: "Jobs",
			Summary: "Write a job file with a small program that runs as it is",
			Details: "Writes job.yaml, a program in source/, which travels with the job, and a Dockerfile with what the program needs. DIR is made if it does not exist. Files that are there are never written over: then nothing is written, and the exit code is 6. No swarm is asked and nothing is installed.",
			Example: "init job my-job --framework pytorch",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "framework", Value: jobfile.None, Usage: "`NAME` of the framework: " + strings.Join(jobfile.Frameworks, ", ")},
				&cli.BoolFlag{Name: "process", Usage: "for hosts that run tasks as processes (run-swop --ml-runtime process): without an image"},
			},
			JSON: jobs.Written{},
			Run:  initJob,
		},
	}
}

// overrideFlags are what is said in the place of a job file's values.
func overrideFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "e", Aliases: []string{"env"}, KeepSpace: true, Usage: "variable `NAME=VALUE` for every group, added or in the place of the file's; repeatable"},
		&cli.StringSliceFlag{Name: "arg", KeepSpace: true, Usage: "argument `WORD` in the place of the file's args; repeatable"},
		&cli.StringFlag{Name: "image", Usage: "`NAME` of the image of every group"},
		&cli.StringSliceFlag{Name: "replicas", Usage: "`N` members, or GROUP=N of a job with groups; repeatable"},
		&cli.StringSliceFlag{Name: "resources", Usage: "what each member needs, as `NAME=VALUE`: cpu=2,memory=4GB; repeatable"},
		&cli.StringFlag{Name: "network", Usage: "`NAME` of the network of members: private, host, or one that hosts share"},
		&cli.StringFlag{Name: "timeout", Usage: "`TIME` after which the job ends, as 6h or 2d"},
	}
}

func overridesOf(o *cli.Context) jobfile.Overrides {
	return jobfile.Overrides{
		Env: o.StringSlice("e"), Args: o.StringSlice("arg"), Image: o.String("image"), Replicas: o.StringSlice("replicas"), Resources: o.StringSlice("resources"), Network: o.String("network"), Timeout: o.String("timeout"),
	}
}

func explainJob(_ context.Context, s *Session, args Args) error {
	j, imported, err := jobs.Load(args.Value("FILE"), args.Opts.String("image"))
	if err != nil {
		return fmt.Errorf("explain job: %w", err)
	}
	e, err := jobs.Preview(j, overridesOf(args.Opts))
	if err != nil {
		return fmt.Errorf("explain job: %s: %w", text.Line(args.Value("FILE")), err)
	}
	e.Imported = imported
	return s.show(e, func() error {
		e.Print(s.Env.Stdout)
		return nil
	})
}

func initJob(_ context.Context, s *Session, args Args) error {
	w, err := jobs.Init(args.Value("DIR"), args.Opts.String("framework"), args.Opts.Bool("process"))
	if err != nil {
		return err
	}
	return s.show(w, func() error {
		fmt.Fprintf(s.Env.Stdout, "%s has a job of framework %s: %s\n", text.Line(w.Dir), w.Framework, strings.Join(w.Files, ", "))
		fmt.Fprintf(s.Env.Stderr, "next: swarmctl explain job %[1]s, then: swarmctl run job %[1]s -f\n", text.Line(filepath.Join(w.Dir, "job.yaml")))
		return nil
	})
}
