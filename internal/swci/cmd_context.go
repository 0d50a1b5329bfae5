package swci

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

func contextCommands() []*Command {
	return []*Command{
		{
			Pattern: "create context NAME [with] [ip] [HOST] [PORT]", Group: "Contexts", Shell: true,
			Summary: "Name a swarm by one of its SNs",
			Details: "Asks the SN at HOST for its swarm and saves where that is, which swarm it is and the identity that was used as a context. PORT is that of the SN's API, 30304 if it is not given. A context of the same name is replaced. switch context makes commands use it.",
			Example: "create context example with ip node-sn",
			JSON:    createdJSON{},
			Run:     createContext,
		},
		{
			Pattern: "list contexts", Group: "Contexts", Shell: true,
			Summary: "Show the saved contexts",
			Details: "A context names a swarm: the API addresses of its SNs, the identity to use there and the swarm's ID. The current one is marked. swarmctl local up keeps one called local as long as it runs.",
			Example: "list contexts",
			JSON:    contextsJSON{},
			Run:     listContexts,
		},
		{
			Pattern: "switch context NAME", Group: "Contexts", Shell: true,
			Summary: "Choose the context that commands use from now on",
			Details: "Later calls of swarmctl by the same user reach this context's swarm unless they say otherwise with --context or --sn.",
			Example: "switch context local",
			JSON:    currentJSON{},
			Run:     switchContext,
		},
	}
}

// createdJSON is `create context … -o json`.
type createdJSON struct {
	Name    string `json:"name" doc:"the context's"`
	SN      string `json:"sn" doc:"API address of the SN, HOST:PORT"`
	SwarmID string `json:"swarm_id" doc:"of its swarm; pinned from now on"`
}

// contextsJSON is `list contexts -o json`.
type contextsJSON struct {
	Contexts []Context `json:"contexts" doc:"by name"`
	Current  string    `json:"current" doc:"name of the current one; empty when none is"`
}

// currentJSON is `switch context NAME -o json`.
type currentJSON struct {
	Current string `json:"current" doc:"name of the context that is now the current one"`
}

func listContexts(_ context.Context, s *Session, _ Args) error {
	contexts, err := OpenContexts(s.Env.Getenv)
	if err != nil {
		return err
	}
	all, err := contexts.List()
	if err != nil {
		return err
	}
	current := contexts.Current()
	if s.JSON {
		return printJSON(s.Env.Stdout, contextsJSON{append([]Context{}, all...), current})
	}
	t := table{header: []string{"NAME", "CURRENT", "SNS", "IDENTITY", "SWARM"}}
	for _, c := range all {
		t.add(c.Name, yesNo(c.Name == current), strings.Join(c.SNs, ","), c.Identity, short(c.SwarmID))
	}
	return t.print(s.Env.Stdout)
}

func switchContext(_ context.Context, s *Session, args Args) error {
	contexts, err := OpenContexts(s.Env.Getenv)
	if err != nil {
		return err
	}
	if err := contexts.Switch(args.Value("NAME")); err != nil {
		return err
	}
	if s.prompt != nil {
		s.prompt.switched = true
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, currentJSON{args.Value("NAME")})
	}
	fmt.Fprintf(s.Env.Stderr, "current context is %s\n", args.Value("NAME"))
	return nil
}

// apiPort is where an SN serves its API unless it is told otherwise.
const apiPort = "30304"

func createContext(ctx context.Context, s *Session, args Args) error {
	name, host := args.Value("NAME"), args.Value("HOST")
	if host == "" {
		return exit.New(exit.Usage, "name an SN: create context NAME with ip HOST", "HOST is missing")
	}
	if err := validContextName(name); err != nil {
		return err
	}
	contexts, err := OpenContexts(s.Env.Getenv)
	if err != nil {
		return err
	}
	if old, err := contexts.Load(name); err == nil && old.PID != 0 && old.up() {
		return exit.New(exit.Conflict, "choose another name", "context %q belongs to a local swarm that is up (process %d)", name, old.PID)
	}
	target, err := s.anyTarget(args.Opts)
	if err != nil {
		return err
	}
	if target.Identity == "" {
		return errNoIdentity()
	}
	target.Name, target.PID, target.SwarmID, target.Epoch = name, 0, "", ""
	target.SNs = []string{net.JoinHostPort(strings.Trim(host, "[]"), first(args.Value("PORT"), apiPort))}
	target.onWait = s.say
	api, closeAPI, err := s.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer closeAPI()
	swarm, err := api.GetSwarm(ctx)
	if err != nil {
		return fmt.Errorf("ask %s for its swarm: %w", target.SNs[0], err)
	}
	if target.SwarmID = swarm.GetSwarmId(); swarm.GetEpoch() != target.SwarmID {
		target.Epoch = swarm.GetEpoch()
	}
	if target.agent != nil {
		target.Identity = "" // the agent ends with this swarmctl: the next names its own
	}
	if err := contexts.Save(target); err != nil {
		return err
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, createdJSON{name, target.SNs[0], target.SwarmID})
	}
	fmt.Fprintf(s.Env.Stderr, "context %s is swarm %s at %s\n", name, short(target.SwarmID), target.SNs[0])
	return nil
}
