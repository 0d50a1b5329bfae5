package original

import (
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/swarmd/swarmd/internal/text"
)

// Command is the first argument by which swarmd is told to serve a program's client.
const Command = "ml-client"

// Options are how a program is served.
type Options struct {
	// Folder is a directory of the program's user alone, for pipes and weight files.
	Folder string
	// Link is made to lead to Folder, unless it is a directory already, which then is the folder; "": nothing is made.
	Link string
	// Forward passes signals on to the program: who sends them does not reach its group.
	Forward bool
}

// Wrap is the command line that runs a program, its command and arguments, behind the executable's Command.
func (o Options) Wrap(executable string, words []string) []string {
	args := []string{executable, Command, "-folder=" + o.Folder}
	if o.Link != "" {
		args = append(args, "-link="+o.Link)
	}
	if o.Forward {
		args = append(args, "-forward")
	}
	return slices.Concat(args, []string{"--"}, words)
}

// RunProgram runs a program and serves its client. It takes the arguments after Command and returns the program's exit code, or 1 with a line
// on standard error if the client can not be served; then the program is ended.
func RunProgram(args []string) int {
	var o Options
	flags := flag.NewFlagSet("swarmd "+Command, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: swarmd %s -folder=DIR [-link=PATH] [-forward] -- COMMAND [ARGUMENTS]\n", Command)
	}
	flags.StringVar(&o.Folder, "folder", "", "")
	flags.StringVar(&o.Link, "link", "", "")
	flags.BoolVar(&o.Forward, "forward", false, "")
	if err := flags.Parse(args); err != nil {
		return 1
	}
	if o.Folder == "" || flags.NArg() == 0 {
		flags.Usage()
		return 1
	}
	code, err := o.run(flags.Args())
	if err != nil {
		say(err.Error())
		return 1
	}
	return code
}

func say(line string) { fmt.Fprintf(os.Stderr, "swarmd %s: %s\n", Command, text.Line(line)) }
