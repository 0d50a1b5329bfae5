package attestor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/token"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/suggest"
)

// Bounds of a configuration.
const (
	maxConfig = 64 << 10
	maxListed = 256
)

// config is plugin_data, understood.
type config struct {
	digests map[digest]bool
	roles   map[identity.Role][]uint32 // a role that is absent is everybody's
	missing string                     // where swarmctl was looked for in vain, by default digests only
}

// newConfig reads the block and fills in the default digests: swarmd itself, and the swarmctl beside it.
func newConfig(text string) (*config, error) {
	c, err := parseConfig(text)
	if err != nil {
		return nil, err
	}
	if c.digests == nil {
		c.digests = map[digest]bool{}
		err = c.defaults()
	}
	return c, err
}

func (c *config) defaults() error {
	// The file that runs, even if an upgrade has put another in its place.
	self, err := fileDigest("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("digest of swarmd: %w", err)
	}
	c.digests[self] = true
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find swarmd: %w", err)
	}
	ctl, err := fileDigest(sibling(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missing = sibling(path)
	case err != nil:
		return fmt.Errorf("digest of swarmctl: %w", err)
	default:
		c.digests[ctl] = true
	}
	return nil
}

// sibling returns where swarmctl is if it is beside a swarmd.
func sibling(swarmd string) string {
	if target, err := filepath.EvalSymlinks(swarmd); err == nil {
		swarmd = target
	}
	return filepath.Join(filepath.Dir(swarmd), "swarmctl")
}

// refuses says why a process gets nothing, "" if it gets its role.
func (c *config) refuses(w workload) string {
	if !c.digests[w.digest] {
		return "its executable is none that the configuration lists; after an upgrade restart the agent, or list the digest"
	}
	if users, limited := c.roles[w.role]; limited && !slices.Contains(users, w.uid) {
		return fmt.Sprintf("user %d may not take role %s: the configuration's roles say who may", w.uid, w.role)
	}
	return ""
}

func parseConfig(text string) (*config, error) {
	if len(text) > maxConfig {
		return nil, fmt.Errorf("plugin_data has %d bytes, at most %d are read", len(text), maxConfig)
	}
	c := &config{roles: map[identity.Role][]uint32{}}
	return c, Guard(func() error {
		file, err := hcl.Parse(text)
		if err != nil {
			return fmt.Errorf("plugin_data: %w", err)
		}
		return each(file.Node, "plugin_data", func(key string, val ast.Node) error {
			switch key {
			case "digests":
				return c.parseDigests(val)
			case "roles":
				return each(val, "roles", c.parseRole)
			}
			return unknown("option", key, []string{"digests", "roles"})
		})
	})
}

// Guard calls a function that reads HCL or JSON. Its parser panics at some texts that are neither, which is an error then.
func Guard(read func() error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("neither HCL nor JSON: %v", why)
		}
	}()
	return read()
}

func (c *config) parseDigests(val ast.Node) error {
	list, ok := val.(*ast.ListType)
	if !ok || len(list.List) == 0 {
		return errors.New(`digests: want a list such as ["1f4e…"]; leave it out for swarmd and the swarmctl beside it`)
	}
	if len(list.List) > maxListed {
		return fmt.Errorf("digests: %d of them, at most %d are taken", len(list.List), maxListed)
	}
	c.digests = map[digest]bool{}
	for _, item := range list.List {
		lit, ok := item.(*ast.LiteralType)
		if !ok || lit.Token.Type != token.STRING {
			return errors.New("digests: want texts in quotes")
		}
		text, _ := lit.Token.Value().(string)
		d, err := parseDigest(text)
		if err != nil {
			return fmt.Errorf("digests: %w", err)
		}
		c.digests[d] = true
	}
	return nil
}

func (c *config) parseRole(key string, val ast.Node) error {
	role, err := identity.ParseRole(key)
	if err != nil {
		var names []string
		for _, r := range identity.Roles() {
			names = append(names, string(r))
		}
		return unknown("role", key, names)
	}
	list, ok := val.(*ast.ListType)
	if !ok || len(list.List) > maxListed {
		return fmt.Errorf("roles: %s: want a list of at most %d user IDs such as [0, 1000]", role, maxListed)
	}
	c.roles[role] = []uint32{}
	for _, item := range list.List {
		lit, ok := item.(*ast.LiteralType)
		if !ok || lit.Token.Type != token.NUMBER {
			return fmt.Errorf("roles: %s: want user IDs, which are numbers", role)
		}
		uid, err := strconv.ParseUint(lit.Token.Text, 10, 32)
		if err != nil {
			return fmt.Errorf("roles: %s: %s is no user ID", role, lit.Token.Text)
		}
		c.roles[role] = append(c.roles[role], uint32(uid))
	}
	return nil
}

// each calls fn with every key and value of an object, each key once.
func each(node ast.Node, where string, fn func(key string, val ast.Node) error) error {
	if object, ok := node.(*ast.ObjectType); ok {
		node = object.List
	}
	list, ok := node.(*ast.ObjectList)
	if !ok {
		return fmt.Errorf("%s: want a block in braces", where)
	}
	seen := map[string]bool{}
	for _, item := range list.Items {
		if len(item.Keys) != 1 {
			return fmt.Errorf("%s: a line is not understood", where)
		}
		key, _ := item.Keys[0].Token.Value().(string)
		if seen[key] {
			return fmt.Errorf("%s: %s stands there twice", where, key)
		}
		seen[key] = true
		if err := fn(key, item.Val); err != nil {
			return err
		}
	}
	return nil
}

func unknown(kind, key string, known []string) error {
	if near := suggest.Word(key, known); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %s?", kind, key, near)
	}
	return fmt.Errorf("unknown %s %q; want one of %s", kind, key, strings.Join(known, ", "))
}

// Block is the part of an agent's configuration that loads the attestor.
type Block struct {
	Command  string   // path of swarmd, or of the file called spire-swarm-plugin that is swarmd
	Args     []string // nil for the latter
	Checksum string   // of the file at Command, "" leaves the line out
	Digests  []string // nil leaves them to the plugin: swarmd and the swarmctl beside it
	Roles    map[identity.Role][]uint32
}

// NewBlock returns the block for a swarmd, with its checksum and with the digests of swarmd and of the swarmctl beside it.
func NewBlock(swarmd string, roles map[identity.Role][]uint32) (Block, error) {
	b := Block{Command: swarmd, Roles: roles}
	if filepath.Base(swarmd) != PluginName {
		b.Args = []string{Command}
	}
	own, err := fileDigest(swarmd)
	if err != nil {
		return b, fmt.Errorf("checksum of the plugin: %w", err)
	}
	b.Checksum, b.Digests = own.String(), []string{own.String()}
	ctl, err := fileDigest(sibling(swarmd))
	if err == nil && ctl != own {
		b.Digests = append(b.Digests, ctl.String())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("digest of swarmctl: %w", err)
	}
	return b, nil
}

const (
	// Command is swarmd's command that is the plugin.
	Command = "spire-plugin"
	// PluginName is the name under which swarmd is the plugin without a command.
	PluginName = "spire-swarm-plugin"
)

// String returns the block in HCL, to stand in the agent's plugins.
func (b Block) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "WorkloadAttestor %q {\n", Name)
	fmt.Fprintf(&s, "  plugin_cmd = %q\n", b.Command)
	if len(b.Args) > 0 {
		fmt.Fprintf(&s, "  plugin_args = [%s]\n", quoted(b.Args))
	}
	if b.Checksum != "" {
		fmt.Fprintf(&s, "  plugin_checksum = %q\n", b.Checksum)
	}
	s.WriteString("  plugin_data {\n")
	if len(b.Digests) > 0 {
		fmt.Fprintf(&s, "    digests = [%s]\n", quoted(b.Digests))
	}
	if len(b.Roles) > 0 {
		s.WriteString("    roles {\n")
		for _, role := range slices.Sorted(maps.Keys(b.Roles)) {
			var users []string
			for _, u := range b.Roles[role] {
				users = append(users, strconv.FormatUint(uint64(u), 10))
			}
			fmt.Fprintf(&s, "      %s = [%s]\n", role, strings.Join(users, ", "))
		}
		s.WriteString("    }\n")
	}
	s.WriteString("  }\n}\n")
	return s.String()
}

func quoted(words []string) string {
	var q []string
	for _, w := range words {
		q = append(q, strconv.Quote(w))
	}
	return strings.Join(q, ", ")
}
