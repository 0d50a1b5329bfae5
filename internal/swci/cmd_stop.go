package swci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/stop"
	"github.com/swarmd/swarmd/internal/launch/sudo"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// stopWord is the command whose options are its own: --sn is a selector there, as the original has it, and not an address.
const stopWord = "stop"

func stopCommand() *Command {
	return &Command{
		Pattern: "stop [OPTION...]", Group: "This host",
		Summary: "Stop the nodes and programs of this host",
		Details: "Stops the components that run on this host, as containers and as processes: SWCI, SWOP, SL (and what is left of its ML programs), SN, SPIRE server, in this order. Each is asked to end first, so that an SL leaves the swarm and its peers need not wait; one that does not end is killed. Then the containers are removed, and the volumes and networks that swarmd made, the nodes' state in them included. What swarmd did not make, and what has another SWARM_SCOPE, is never touched; nor is a --state-dir of your own.\n\n" +
			"Without a selector everything is stopped. Selectors: --sl (--sl-pyt or --sl-tf for one platform), --sn, --swop, --swci, --spire-server, and --all. --apls is accepted and stops nothing, as there is no license server. --keep leaves containers with their logs, volumes and networks. --sudo runs the command as root, which it does by itself if the container engine's socket demands it and sudo is there. The options stand after the word stop; those of other commands have no meaning here. scripts/stop-swarm is the same command.\n\n" +
			"Exit code 0 means that nothing ran or all stopped, 1 that something did not or the options are wrong. docs/reference/stop.md has the details.",
		Example: "stop --sl --keep",
		Run:     runStop,
	}
}

func runStop(ctx context.Context, s *Session, args Args) error {
	o, err := stop.Parse(args.Rest)
	if err != nil {
		return exit.New(exit.Failed, "", "%w", err)
	}
	if o.Help {
		_, err := fmt.Fprint(s.Env.Stdout, stop.Usage)
		return err
	}
	root := sudo.OS()
	if o.Sudo && root.UID() != 0 {
		return stopAsRoot(s, root)
	}
	e, denied := stopEngine(ctx, s, &o)
	if errors.Is(denied, stop.ErrDenied) && root.Helps(ctx, s.Env.IsTerminal(s.Env.Stderr)) {
		fmt.Fprintln(s.Env.Stderr, "swarmctl: the container engine's socket refuses this user: running again under sudo")
		return stopAsRoot(s, root)
	}
	if e != nil {
		defer e.Close()
	}
	err = stop.Run(ctx, stop.Config{Options: o, Scope: engine.Scope(s.Env.Getenv), Engine: e, Out: s.Env.Stdout})
	switch {
	case err != nil && ctx.Err() == nil:
		return exit.New(exit.Failed, "", "%w", err)
	case err != nil || denied == nil:
		return err
	case errors.Is(denied, stop.ErrNoEngine):
		fmt.Fprintf(s.Env.Stderr, "swarmctl: %s, so only processes were looked for\n", text.Line(denied.Error()))
		return nil
	case errors.Is(denied, stop.ErrDenied):
		return exit.New(exit.Failed, "add --sudo, or join the group of the socket (docker)", "containers were not looked for: %w", denied)
	default:
		return exit.New(exit.Failed, remedyOf(denied), "containers were not looked for: %w", denied)
	}
}

// stopEngine opens the engine if anything of it may be meant; the error says why there is none.
func stopEngine(ctx context.Context, s *Session, o *stop.Options) (*engine.Engine, error) {
	if o.APLS && len(o.Args()) == 1 {
		return nil, nil
	}
	return stop.Open(ctx, s.Env.Getenv)
}

func remedyOf(err error) string {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return e.Remedy()
	}
	return ""
}

// stopAsRoot becomes the same command under sudo, which looks for this user's processes too. It returns only if that can't be.
func stopAsRoot(s *Session, root sudo.Sudo) error {
	var more []string
	if dir := stop.Registry(s.Env.Getenv); dir != "" {
		more = []string{dir}
	}
	return exit.New(exit.Failed, "", "%w", root.Again(s.argv, os.Environ(), more...))
}

// ownOptions reports whether a command line is of a command that reads its options itself.
func ownOptions(args []string) bool { return len(args) > 0 && strings.EqualFold(args[0], stopWord) }
