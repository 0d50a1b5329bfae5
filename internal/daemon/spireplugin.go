package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire/attestor"
)

// isPlugin reports whether swarmd was called as the plugin, which needs no command then.
func isPlugin(args []string) bool {
	return len(args) > 0 && filepath.Base(args[0]) == attestor.PluginName
}

func pluginCommand(e Env) *cli.Command {
	flags := []cli.Flag{
		&cli.StringSliceFlag{Name: "roles", Usage: "ROLE=USER[,USER…]: only these users (numbers or names) may take the role (repeatable)"},
		stringFlag("plugin-cmd", "path under which the agent finds swarmd (default: where it is now)"),
	}
	c := command(attestor.Command, "the plugin by which a SPIRE agent recognises swarmd", flags, nil)
	c.ArgsUsage = "[config]"
	c.Description = "Without an argument swarmd serves the plugin to the SPIRE agent that started it; called as " + attestor.PluginName + " it does so by itself.\n" +
		"With config it prints the block for the plugins in the agent's configuration file."
	c.Action = func(c *cli.Context) error {
		switch {
		case c.NArg() == 0 && (c.IsSet("roles") || c.IsSet("plugin-cmd")):
			return errors.New("--roles and --plugin-cmd go with spire-plugin config")
		case c.NArg() == 0:
			return attestor.Serve()
		case c.NArg() > 1 || c.Args().First() != "config":
			return fmt.Errorf("spire-plugin takes no argument but config, got %q", strings.Join(c.Args().Slice(), " "))
		}
		return printBlock(c, e)
	}
	return c
}

func printBlock(c *cli.Context, e Env) error {
	roles, err := parseRoles(c.StringSlice("roles"))
	if err != nil {
		return err
	}
	path := c.String("plugin-cmd")
	if path == "" {
		path, err = os.Executable()
	} else {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("find swarmd: %w", err)
	}
	block, err := attestor.NewBlock(path, roles)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(e.Stdout, block)
	return err
}

// parseRoles reads ROLE=USER,USER…; a role that is named twice may be taken by the users of both.
func parseRoles(given []string) (map[identity.Role][]uint32, error) {
	roles := map[identity.Role][]uint32{}
	for _, g := range given {
		name, users, ok := strings.Cut(g, "=")
		role, err := identity.ParseRole(name)
		if !ok || err != nil {
			return nil, fmt.Errorf("--roles %s: want ROLE=USER[,USER…] with one of the roles sn, sl, swop, swci; auditors take swci's", g)
		}
		for _, u := range strings.Split(users, ",") {
			uid, err := userID(u)
			if err != nil {
				return nil, fmt.Errorf("--roles %s: %w", g, err)
			}
			roles[role] = append(roles[role], uid)
		}
	}
	return roles, nil
}

func userID(s string) (uint32, error) {
	if known, err := user.Lookup(s); err == nil {
		s = known.Uid
	}
	uid, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("no user %q on this machine", s)
	}
	return uint32(uid), nil
}
