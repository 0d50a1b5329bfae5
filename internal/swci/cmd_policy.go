package swci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// policyCommands are for owners of hosts. They ask no swarm.
func policyCommands() []*Command {
	return []*Command{
		{
			Pattern: "lint policy FILE", Group: "This host",
			Summary: "Check the policy of a host that takes tasks, and show in words what it does",
			Details: "FILE is a policy.yaml. Each mistake is a line with file and line number, and the word that was probably meant; then the exit code is 1. No swarm is asked and nothing is changed. docs/reference/policy.md describes the file, docs/operations/consent.md how to choose what to write.",
			Example: "lint policy policy.yaml",
			JSON:    lintedPolicyJSON{},
			Run:     lintPolicy,
		},
		{
			Pattern: "explain policy FILE", Group: "This host",
			Summary: "Show what a host with this policy would do with a task, and which sentence decides",
			Details: "FILE is a policy.yaml, or null or ask, for a host without one. Reports whether the task that the options describe would be carried out, asked for or refused, by which sentence or limit, and what to add where it is refused. What the options leave out is not known of the task, so a condition about it does not hold.\n\n" +
				"Ends with exit code 4 if the task is refused.",
			Example: "explain policy policy.yaml --by spiffe://hospital-a.example/swarm/swci/anna --task-type PULL_IMAGE",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "by", Usage: "SPIFFE `ID` of who asks"},
				&cli.StringFlag{Name: "task", Usage: "`NAME` of the task"},
				&cli.StringFlag{Name: "task-type", Value: "RUN_SWARM", Usage: "`TYPE` of the task"},
				&cli.StringFlag{Name: "task-digest", Usage: "`DIGEST` of the task, 64 hex digits"},
				&cli.StringFlag{Name: "task-outcome", Usage: "`NAME` that the task gives to what it makes"},
				&cli.StringFlag{Name: "image", Usage: "`REFERENCE` of the image"},
				&cli.StringFlag{Name: "image-digest", Usage: "`DIGEST` of the image, sha256:…"},
				&cli.StringFlag{Name: "runtime", Value: "docker", Usage: "what runs the task: docker, podman or process, as `NAME`"},
				&cli.Float64Flag{Name: "cpus", Usage: "`N` CPUs that it asks for"},
				&cli.Float64Flag{Name: "hours", Usage: "`N` hours after which it is stopped"},
				&cli.IntFlag{Name: "gpus", Usage: "`N` GPUs that it asks for"},
				&cli.StringSliceFlag{Name: "volume", Usage: "volume `NAME` that it names; repeatable"},
				&cli.StringSliceFlag{Name: "path", Usage: "`PATH` of the host that it names; repeatable"},
				&cli.StringSliceFlag{Name: "secret", Usage: "secret `NAME` that it asks for; repeatable"},
				&cli.StringSliceFlag{Name: "target", Usage: "target `NAME` to which it asks to have artifacts copied; repeatable"},
			},
			JSON: explainedPolicyJSON{},
			Run:  explainPolicy,
		},
	}
}

// lintedPolicyJSON is `lint policy -o json`.
type lintedPolicyJSON struct {
	OK       bool     `json:"ok" doc:"nothing is wrong"`
	Says     string   `json:"says,omitempty" doc:"what the policy does, in words"`
	Mistakes []string `json:"mistakes" doc:"each with file and line"`
}

func lintPolicy(_ context.Context, s *Session, args Args) error {
	p, err := readPolicy(args)
	found := lintedPolicyJSON{OK: err == nil, Mistakes: []string{}}
	switch {
	case errors.As(err, new(*os.PathError)):
		return err
	case err != nil:
		found.Mistakes = strings.Split(err.Error(), "\n")
	default:
		found.Says = p.String()
	}
	if s.JSON {
		err = printJSON(s.Env.Stdout, found)
	} else {
		_, err = fmt.Fprint(s.Env.Stdout, cutLines(found.Mistakes), cutLines(nonEmpty(found.Says)))
	}
	if err == nil && !found.OK {
		err = exit.New(exit.Failed, "", "%s is no policy that a host would start with", args.Value("FILE"))
	}
	return err
}

func cutLines(all []string) string {
	var b strings.Builder
	for _, line := range all {
		b.WriteString(text.Line(line) + "\n")
	}
	return b.String()
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// explainedPolicyJSON is `explain policy -o json`.
type explainedPolicyJSON struct {
	Verdict string `json:"verdict" doc:"allowed, ask or refused"`
	By      string `json:"by" doc:"the sentence or limit that decides, with file and line; of a refusal by no sentence the nearest one"`
	Reason  string `json:"reason,omitempty" doc:"of a refusal"`
	Remedy  string `json:"remedy,omitempty" doc:"of a refusal: what the host's owner can do"`
}

func explainPolicy(_ context.Context, s *Session, args Args) error {
	p, err := readPolicy(args)
	if err != nil {
		return err
	}
	o := args.Opts
	if o.String("by") == "" {
		return exit.New(exit.Usage, "say who asks: --by spiffe://DOMAIN/swarm/swci/NAME", "explain policy: no --by")
	}
	image := policy.Image{Name: o.String("image")}
	if d := o.String("image-digest"); d != "" {
		image.Digests = []string{d}
	}
	d := p.Decide(policy.Request{
		Submitter: o.String("by"), Task: o.String("task"), Type: o.String("task-type"), Digest: o.String("task-digest"),
		Outcome: o.String("task-outcome"), Image: image, Runtime: o.String("runtime"),
		Held: o.String("runtime") != policy.Process, CPUs: o.Float64("cpus"), GPUs: o.Int("gpus"), Hours: o.Float64("hours"), Volumes: o.StringSlice("volume"), Paths: o.StringSlice("path"), Secrets: o.StringSlice("secret"),
		Targets: o.StringSlice("target"),
	})
	switch {
	case s.JSON:
		err = printJSON(s.Env.Stdout, explainedPolicyJSON{Verdict: d.Verdict.String(), By: d.By.String(), Reason: d.Reason, Remedy: d.Remedy})
	case d.Verdict != policy.Refused:
		_, err = fmt.Fprintln(s.Env.Stdout, text.Line(d.String()))
	}
	if err == nil && d.Verdict == policy.Refused {
		err = exit.New(exit.Denied, d.Remedy, "refused: %s", d.Reason)
	}
	return err
}

// readPolicy reads the policy that a command names. A host's own operators are those of the first --trust-domain.
func readPolicy(args Args) (*policy.Policy, error) {
	name, domain := args.Value("FILE"), ""
	if domains := args.Opts.StringSlice("trust-domain"); len(domains) > 0 {
		domain = domains[0]
	}
	if name == policy.Null || name == policy.Ask {
		return policy.Unwritten(name, domain)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, policy.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return policy.Parse(name, data, domain)
}
