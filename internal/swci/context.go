package swci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// Context says which swarm a command talks to and as whom.
type Context struct {
	Name         string   `json:"name" doc:"the context's"`
	SNs          []string `json:"sns" doc:"API addresses, HOST:PORT"`
	Service      bool     `json:"service,omitempty" doc:"these are a proxy's, as \"with service\" names it; absent: they are not"`
	Identity     string   `json:"identity" doc:"as the option --identity takes it"`
	SwarmID      string   `json:"swarm_id" doc:"pinned; empty until first contact"`
	Epoch        string   `json:"epoch,omitempty" doc:"that is followed, as nodes name swarm and epoch to each other; absent in the first one"`
	TrustDomains []string `json:"trust_domains" doc:"further accepted ones"`
	SPIFFEPrefix string   `json:"spiffe_prefix,omitempty" doc:"what stands before the role in SPIFFE IDs; absent: /swarm"`
	PID          int      `json:"pid,omitempty" doc:"of the local up that keeps it"` // 0 for one that the user made

	Invitation string `json:"invitation,omitempty" doc:"directory of the invitation that brings the identity; absent: none does"`

	Agent *KeptAgent `json:"agent,omitempty" doc:"SPIRE agent that brings the identity; absent: none does"`

	Env []Variable `json:"env,omitempty" doc:"what set context env has put there"` // by key

	agent        *spire.AgentConfig // to start for the identity; nil for none
	agentOptions string             // that ask for it
	calls        told               // who hears of its calls
}

// told is who is told of calls; nil is nobody.
type told struct {
	onWait   func(why string) // of what a call waits for
	onFollow func(epoch.Pin)  // of a later epoch that is followed
}

// Variable is a name and a value that the user keeps in a context.
type Variable struct {
	Key   string `json:"key" doc:"the variable's"`
	Value string `json:"value" doc:"as it was set"`
}

func (v Variable) words(l *lines) { l.fact(v.Key, v.Value) }

// pinned is the swarm with its epoch.
func (c Context) pinned() string { return first(c.Epoch, c.SwarmID) }

// source is where the identity comes from, in words as short as an option's.
func (c Context) source() string {
	if c.Agent != nil || c.Invitation != "" {
		return agentIdentity
	}
	return c.Identity
}

// up reports whether the `local up` that keeps the context lives. Its process ID alone could be another process's by now.
func (c Context) up() bool {
	socket, err := identitySocket(c.Identity, os.Getenv)
	return err == nil && c.PID > 0 && syscall.Kill(c.PID, 0) == nil && identityAnswers(context.Background(), socket) == nil
}

// Contexts is the user's folder of saved contexts: one JSON file each, and a file that names the current one. It is
// private to the user (0700), because who may choose a context chooses which swarm commands reach.
type Contexts struct {
	dir string
	// under are those of whoever runs web mode, of a client's: the client sees them and changes only its own.
	under *Contexts
}

// maxClientContexts bounds the contexts of one client of web mode.
const maxClientContexts = 64

// contextsOf returns the folder of whoever gives the session its commands.
func contextsOf(s *Session) (*Contexts, error) {
	own, err := OpenContexts(s.Env.Getenv)
	if err != nil || s.prompt == nil || s.prompt.client == "" {
		return own, err
	}
	sum := sha256.Sum256([]byte(s.prompt.client))
	return &Contexts{dir: filepath.Join(own.dir, "clients", hex.EncodeToString(sum[:16])), under: own}, nil
}

// OpenContexts returns the folder under XDG_STATE_HOME (or ~/.local/state). Nothing is created before the first Save.
func OpenContexts(getenv func(string) string) (*Contexts, error) {
	base, err := userdirs.Of(getenv).User()
	if err != nil {
		return nil, err
	}
	return &Contexts{dir: filepath.Join(base, "swarmd", "contexts")}, nil
}

// Save writes ctx, replacing one of the same name.
func (c *Contexts) Save(ctx Context) error {
	if err := validContextName(ctx.Name); err != nil {
		return err
	}
	if err := c.room(ctx.Name); err != nil {
		return err
	}
	data, err := json.MarshalIndent(ctx, "", "  ")
	if err != nil {
		return fmt.Errorf("encode context %q: %w", ctx.Name, err)
	}
	return c.write(ctx.Name+".json", append(data, '\n'))
}

// room returns an error if a client has as many contexts as it may, and none of this name.
func (c *Contexts) room(name string) error {
	if c.under == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "*.json"))
	if err != nil || len(files) < maxClientContexts || slices.Contains(files, filepath.Join(c.dir, name+".json")) {
		return err
	}
	return exit.New(exit.Usage, "create one of these again: "+contextNames(files), "this client of web mode has %d contexts, which is as many as it may", maxClientContexts)
}

// contextNames names a few of the contexts that files hold.
func contextNames(files []string) string {
	var names []string
	for _, f := range files[:min(len(files), 5)] {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return strings.Join(names, ", ")
}

// write replaces a file whole, so that a reader never sees half of it.
func (c *Contexts) write(name string, data []byte) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make context folder: %w", err)
	}
	if err := atomicfile.Replace(filepath.Join(c.dir, name), data, 0o600); err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	return nil
}

// Load returns the context called name.
func (c *Contexts) Load(name string) (Context, error) {
	if err := validContextName(name); err != nil {
		return Context{}, err
	}
	data, err := os.ReadFile(filepath.Join(c.dir, name+".json"))
	if errors.Is(err, fs.ErrNotExist) && c.under != nil {
		return c.under.Load(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, exit.New(exit.NotFound, "swarmctl list contexts shows what there is", "context %q does not exist", name)
	}
	if err != nil {
		return Context{}, fmt.Errorf("read context: %w", err)
	}
	var ctx Context
	if err := json.Unmarshal(data, &ctx); err != nil {
		return Context{}, fmt.Errorf("read context %q: %w", name, err)
	}
	ctx.Name = name
	return ctx, nil
}

// List returns all contexts by name.
func (c *Contexts) List() ([]Context, error) {
	files, err := filepath.Glob(filepath.Join(c.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list contexts: %w", err)
	}
	var out []Context
	if c.under != nil {
		if out, err = c.under.List(); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		ctx, err := c.Load(strings.TrimSuffix(filepath.Base(f), ".json"))
		if err != nil {
			return nil, err
		}
		out = slices.DeleteFunc(out, func(x Context) bool { return x.Name == ctx.Name })
		out = append(out, ctx)
	}
	slices.SortFunc(out, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Current returns the name of the current context, or "" when none is chosen.
func (c *Contexts) Current() string {
	data, err := os.ReadFile(filepath.Join(c.dir, "current"))
	if err != nil && c.under != nil {
		return c.under.Current()
	}
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Switch makes name the current context; "" leaves none.
func (c *Contexts) Switch(name string) error {
	if name == "" {
		if err := os.Remove(filepath.Join(c.dir, "current")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("leave context: %w", err)
		}
		return nil
	}
	if _, err := c.Load(name); err != nil {
		return err
	}
	return c.write("current", []byte(name+"\n"))
}

// Named returns the context called name, or the current one for "".
func (c *Contexts) Named(name string) (Context, error) {
	if name = first(name, c.Current()); name == "" {
		return Context{}, exit.New(exit.Usage, "name one, or choose one with swarmctl switch context NAME", "there is no current context")
	}
	return c.Load(name)
}

// Remove forgets the context called name if it still belongs to the process pid, and leaves it if it is the current one.
func (c *Contexts) Remove(name string, pid int) error {
	ctx, err := c.Load(name)
	if err != nil || ctx.PID != pid {
		return err
	}
	if c.Current() == name {
		if err := c.Switch(""); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(c.dir, name+".json")); err != nil {
		return fmt.Errorf("remove context %q: %w", name, err)
	}
	return nil
}

func validContextName(name string) error {
	if !naming.ValidNode(name) {
		return exit.New(exit.Usage, "use 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter or digit", "context name %q is not valid", name)
	}
	return nil
}
