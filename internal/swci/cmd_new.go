package swci

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/swci/project"
	"github.com/swarmd/swarmd/internal/text"
)

// newCommand is the row of `swarmctl new`.
func newCommand() *Command {
	return &Command{
		Pattern: "new DIR", Group: "This host",
		Summary: "Write a small project with a training program that runs as it is",
		Details: "Writes a program, data that it makes up for each peer, a README and run.sh, the command that trains it at three peers of a swarm on this machine with `swarmctl local run`: for PyTorch (pyt), Keras (tf), numpy, scikit-learn (sklearn) or Hugging Face transformers (hf). Put your own data into model/data.py and your own model into model/train.py.\n\n" +
			"DIR is made if it does not exist; one that is not empty is refused with exit code 6. Nothing is installed and nothing is started.",
		Example: "new my-project --framework pyt",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "framework", Value: "pyt", Usage: "`NAME` of the framework: " + strings.Join(project.Names(), ", ")},
		},
		JSON: newJSON{},
		Run:  newProject,
	}
}

// newJSON is `new -o json`.
type newJSON struct {
	Dir       string   `json:"dir" doc:"the project's folder"`
	Framework string   `json:"framework" doc:"pyt, tf, numpy, sklearn or hf"`
	Files     []string `json:"files" doc:"what was written, relative to the folder"`
}

func newProject(_ context.Context, s *Session, args Args) error {
	p, err := project.Write(args.Value("DIR"), args.Opts.String("framework"), ownCommand())
	if err != nil {
		return err
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, newJSON{Dir: p.Dir, Framework: p.Framework.Name, Files: p.Files})
	}
	fmt.Fprintf(s.Env.Stdout, "%s has a %s program for a swarm: %s\n", text.Line(p.Dir), p.Framework.Title, strings.Join(p.Files, ", "))
	fmt.Fprintf(s.Env.Stderr, "next: %s\n", text.Line(filepath.Join(p.Dir, "run.sh")))
	return nil
}

// ownCommand is what calls this swarmctl: its name where PATH leads to it, else its path.
func ownCommand() string {
	const name = "swarmctl"
	own, err := os.Executable()
	if err != nil {
		return name
	}
	if found, err := exec.LookPath(name); err == nil && sameFile(found, own) {
		return name
	}
	return own
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
