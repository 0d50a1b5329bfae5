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
		Description: "The agent may hand out the identities of all nodes that are named: sl/hospital-a is one node, sl the entry that all nodes of the role share. " +
			"If a node has no registration entry of its own, --create makes it, and --shared uses the shared entry instead, by which nodes can't be told apart. " +
			"To carry all that a new host needs in one line, see swarmctl invite.",
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
		Flags: []cli.Flag{
			stringFlag("server-socket", "the SPIRE server's API socket (default: that of run-spire-server, or "+spire.DefaultServerSocket+")"),
			&cli.DurationFlag{Name: "ttl", Value: spire.DefaultTokenTTL, Usage: "how long the token may be used"},
			&cli.BoolFlag{Name: "create", Usage: "make the registration entry of a node that has none of its own"},
			&cli.BoolFlag{Name: "shared", Usage: "use the role's shared entry for a node that has none of its own"},
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
	if c.Bool("create") && c.Bool("shared") {
		return errors.New("--create and --shared: give one of the two")
	}
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
		path, err := agent(c, e, server, arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// agent returns the path of the agent of one node, whose entry it makes if that is asked for.
func agent(c *cli.Context, e Env, server *spire.Server, arg string) (string, error) {
	role, name, err := spire.ParseNode(arg)
	if err != nil {
		return "", err
	}
	if c.Bool("create") && name != "" {
		path, made, err := server.EnsureEntry(c.Context, role, name)
		if made {
			fmt.Fprintf(e.Stderr, "swarmd: the registration entry of %s is made\n", arg)
		}
		return path, err
	}
	path, own, err := server.AgentOf(c.Context, role, name)
	switch {
	case err != nil:
		return "", err
	case !own && !c.Bool("shared"):
		return "", fmt.Errorf("%s has no registration entry of its own: --create makes it; --shared gives it the one that all nodes of role %s share, with which it can't be told from them nor be shut out alone", arg, role)
	case !own:
		fmt.Fprintf(e.Stderr, "swarmd: %s has no registration entry of its own: the token is for the one that all nodes of role %s share\n", arg, role)
	}
	return path, nil
}
