package swci

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

func contextCommands() []*Command {
	return []*Command{
		{
			Pattern: "create context NAME [with] [ip] [service] [HOST] [PORT]", Group: "Contexts", Shell: true,
			Summary: "Save the address of a swarm and an identity under a name",
			Details: "Asks the SN at HOST for its swarm, and saves its address, the swarm's ID and the identity that was used as a context. PORT is that of the SN's API, 30304 if not given; HOST:PORT works too. With the word service, HOST is the name of the API at a proxy, and PORT is 443 if not given. A context of the same name is replaced. With --invite HOST may be left out, and the identity comes from the invitation, now and later: from the SPIRE agent of a node on this host that was invited with it, while that runs. switch context makes commands use it.\n\nA SPIRE agent that the command starts is kept with the context: its options, a copy of the trust bundle, and its keys in a directory of its own that other users can't read. The join token is not kept: this command uses it up, and later ones need neither a token nor an option. Options of a later command win over the kept ones; with the address of another server it starts another agent. If the context is created again, an agent of the same server keeps its keys.",
			Example: "create context example with ip node-sn",
			Flags:   []cli.Flag{&cli.StringFlag{Name: "invite", Usage: "`FILE` with an invitation for an operator (swci), - for standard input"}},
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
			Pattern: "delete context NAME", Group: "Contexts", Shell: true,
			Summary: "Delete a saved context",
			Details: "Removes the context, and with it the keys of a SPIRE agent that no other context uses. The swarm notices nothing of it. If it was the current context, there is none until switch context chooses another.",
			Example: "delete context example",
			JSON:    deletedContextJSON{},
			Run:     deleteContext,
		},
		{
			Pattern: "switch context NAME", Group: "Contexts", Shell: true,
			Summary: "Choose the context that later commands use",
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

func (c createdJSON) words(l *lines) {
	l.say(apiIsUp)
	l.say("CONTEXT CREATED : " + c.Name)
}

// contextsJSON is `list contexts -o json`.
type contextsJSON struct {
	Contexts []Context `json:"contexts" doc:"by name"`
	Current  string    `json:"current" doc:"name of the current one; empty when none is"`
}

func (c contextsJSON) words(l *lines) {
	for _, x := range c.Contexts {
		l.say(x.Name)
	}
}

// currentJSON is `switch context NAME -o json`.
type currentJSON struct {
	Current string `json:"current" doc:"name of the context that is now the current one"`
}

func (c currentJSON) words(l *lines) { l.say("DEFAULT CONTEXT SET TO : " + c.Current) }

// deletedContextJSON is `delete context NAME -o json`.
type deletedContextJSON struct {
	Deleted string `json:"deleted" doc:"name of the context that was removed"`
}

func (d deletedContextJSON) words(l *lines) { l.say("CONTEXT DELETED : " + d.Deleted) }

func deleteContext(_ context.Context, s *Session, args Args) error {
	contexts, err := contextsOf(s)
	if err != nil {
		return err
	}
	name := args.Value("NAME")
	c, err := contexts.Load(name)
	if err != nil {
		return err
	}
	if c.PID != 0 && c.up() {
		return exit.New(exit.Conflict, "end it first: swarmctl local up runs until Ctrl-C, or until its process is stopped", "context %q belongs to a local swarm that is up (process %d)", name, c.PID)
	}
	if err := errors.Join(contexts.Remove(name, c.PID), contexts.dropAgent(c.Agent, s.Env.Getenv, s.say)); err != nil {
		return err
	}
	return s.show(deletedContextJSON{name}, func() error {
		fmt.Fprintf(s.Env.Stderr, "context %s is forgotten\n", name)
		return nil
	})
}

func listContexts(_ context.Context, s *Session, _ Args) error {
	contexts, err := contextsOf(s)
	if err != nil {
		return err
	}
	all, err := contexts.List()
	if err != nil {
		return err
	}
	current := contexts.Current()
	return s.show(contextsJSON{append([]Context{}, all...), current}, func() error {
		t := table{header: []string{"NAME", "CURRENT", "SNS", "IDENTITY", "SWARM"}}
		for _, c := range all {
			t.add(c.Name, yesNo(c.Name == current), strings.Join(c.SNs, ","), c.source(), short(c.SwarmID))
		}
		return t.print(s.Env.Stdout)
	})
}

func switchContext(_ context.Context, s *Session, args Args) error {
	contexts, err := contextsOf(s)
	if err != nil {
		return err
	}
	if err := contexts.Switch(args.Value("NAME")); err != nil {
		return err
	}
	if s.prompt != nil {
		s.prompt.switched.Store(true)
	}
	return s.show(currentJSON{args.Value("NAME")}, func() error {
		fmt.Fprintf(s.Env.Stderr, "current context is %s\n", args.Value("NAME"))
		return nil
	})
}
