package swci

import (
	"context"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
	"github.com/swarmd/swarmd/internal/text"
)

func artifactCommands() []*Command {
	return []*Command{{
		Pattern: "get artifacts JOB", Group: "Jobs",
		Summary: "Fetch what members of a job have left in their folder of artifacts",
		Details: "Of the last run of the job, and of that its last start, each host hands out what its members have left, also those that failed. It says which members have left nothing, and which have not ended: these have none yet. It is put into DIR/HOST/GROUP/RANK, of each host whole or not at all; what is there already is left as it is, and is an error. Links, and files that are none, a host leaves out, and says so; so it does of what it has removed for age, or to make room.\n\n" +
			"It may be data, and goes to those to whom logs of the host go (get logs), over a connection with the host's file server alone (get ports).",
		Example: "get artifacts mnist-ddp --to results",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Value: ".", Usage: "`DIR` that gets a folder for each host; it is made if it does not exist"},
			&cli.StringFlag{Name: "assignment", Usage: "`ID` of another run of the job"},
		},
		JSON: artifactsJSON{},
		Run:  getArtifacts,
	}}
}

// artifactsJSON is `get artifacts JOB -o json`.
type artifactsJSON struct {
	Assignment string              `json:"assignment" doc:"ID of the run"`
	Hosts      []hostArtifactsJSON `json:"hosts" doc:"those that have handed something out"`
}

type hostArtifactsJSON struct {
	Host  string   `json:"host" doc:"its name"`
	Dir   string   `json:"dir" doc:"where its members' artifacts are; empty: there are none"`
	Files int      `json:"files" doc:"how many"`
	Said  []string `json:"said" doc:"what is not there, as the host says"`
}

func getArtifacts(ctx context.Context, s *Session, args Args) error {
	job, to := args.Value("JOB"), args.Opts.String("to")
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		found, _, err := hostlogs.Named(ctx, api, job, args.Opts.String("assignment"))
		if err != nil {
			return fmt.Errorf("get artifacts %s: %w", job, apiError(err))
		}
		if found[0].Assignment == "" {
			return exit.New(exit.Usage, "name a job: swarmctl list jobs", "get artifacts %s: it is a node", job)
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		direct := &client.Direct{By: api}
		defer direct.Close()
		out := artifactsJSON{Assignment: found[0].Assignment, Hosts: []hostArtifactsJSON{}}
		var failed []error
		for _, l := range found {
			got, err := hostlogs.Artifacts(ctx, direct, l, to)
			host := text.Line(l.Node.GetName())
			for _, said := range got.Said {
				s.say(fmt.Sprintf("%s/%s", host, said))
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("get artifacts %s: %s: %w", job, host, apiError(err)))
				continue
			}
			out.Hosts = append(out.Hosts, hostArtifactsJSON{Host: l.Node.GetName(), Dir: got.Dir, Files: got.Files, Said: append([]string{}, got.Said...)})
			if got.Dir == "" {
				if !s.JSON {
					fmt.Fprintf(s.Env.Stdout, "%s: nothing was left\n", host)
				}
			} else if !s.JSON {
				fmt.Fprintf(s.Env.Stdout, "%s: %d files\n", text.Line(got.Dir), got.Files)
			}
		}
		if s.JSON {
			if err := printJSON(s.Env.Stdout, out); err != nil {
				return err
			}
		}
		return ofHosts(s, failed)
	})
}

// ofHosts is the error of one host as it is; of several each is said, and the first decides the exit code.
func ofHosts(s *Session, failed []error) error {
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	}
	for _, err := range failed {
		s.say(err.Error())
	}
	return exit.Said(exit.Code(failed[0]))
}
