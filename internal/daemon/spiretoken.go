package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity/spire"
)

func spireTokenCommand(e Env) *cli.Command {
	return &cli.Command{
		Name: "spire-token", Usage: "make a join token for a SPIRE agent, on the SPIRE server's machine",
		ArgsUsage: "ROLE[/NAME]...", HideHelpCommand: true,
		Description:  "The agent may hand out the identities of every node that is named: sl/hospital-a for one node, sl for all of the role's common entry.",
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
		Flags: []cli.Flag{
			stringFlag("server-socket", "the SPIRE server's API socket (default: that of run-spire-server, or "+spire.DefaultServerSocket+")"),
			&cli.DurationFlag{Name: "ttl", Value: spire.DefaultTokenTTL, Usage: "how long the token may be used"},
			&cli.BoolFlag{Name: "json", Usage: "print token, trust domain and trust bundle as JSON"},
		},
		Action: func(c *cli.Context) error { return spireToken(c, e) },
	}
}

func spireToken(c *cli.Context, e Env) error {
	if c.NArg() == 0 {
		return errors.New("name the nodes that the agent is for, such as sl/hospital-a or sn; see swarmd spire-token --help")
	}
	for _, arg := range c.Args().Slice() {
		if _, _, err := spire.ParseNode(arg); err != nil {
			return err
		}
	}
	socket := c.String("server-socket")
	if socket == "" {
		socket = serverSocket(e)
	}
	server, err := spire.OpenServer(socket)
	if err != nil {
		return err
	}
	defer server.Close()
	aliases, err := agents(c, e, server)
	if err != nil {
		return err
	}
	join := spire.Join{Agent: aliases[0]}
	if join.Token, err = server.JoinToken(c.Context, aliases, c.Duration("ttl")); err != nil {
		return err
	}
	if !c.Bool("json") {
		_, err = fmt.Fprintln(e.Stdout, join.Token)
		return err
	}
	if join.Bundle, join.TrustDomain, err = server.Bundle(c.Context); err != nil {
		return err
	}
	return json.NewEncoder(e.Stdout).Encode(join)
}

// agents returns the paths of the agents of the nodes that the arguments name.
func agents(c *cli.Context, e Env, server *spire.Server) ([]string, error) {
	var paths []string
	for _, arg := range c.Args().Slice() {
		role, name, err := spire.ParseNode(arg)
		if err != nil {
			return nil, err
		}
		path, own, err := server.AgentOf(c.Context, role, name)
		if err != nil {
			return nil, err
		}
		if !own {
			fmt.Fprintf(e.Stderr, "swarmd: %s has no registration entry of its own: the token is for the one that all nodes of role %s share; `swarmd run-spire-server --node %s` makes an own one\n", arg, role, arg)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
