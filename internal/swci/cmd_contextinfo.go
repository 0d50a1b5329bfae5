package swci

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/version"
)

func contextInfoCommands() []*Command {
	return []*Command{
		{
			Pattern: "get context info [NAME]", Group: "Contexts", Shell: true,
			Summary: "Show the addresses, swarm and identity of a context",
			Details: "Prints the SNs, the swarm, the identity and the variables of the context NAME, or of the one that is used now, and the versions of swarmctl and of the API that it speaks. It asks no SN.",
			Example: "get context info example",
			JSON:    contextInfoJSON{},
			Run:     getContextInfo,
		},
		{
			Pattern: "get context version", Group: "Contexts", Shell: true,
			Summary: "Show the versions of swarmctl, of the SN and of the API",
			Details: "Prints the version of swarmctl, of the SN that it asks, and of the API.",
			Example: "get context version",
			JSON:    contextVersionJSON{},
			Run:     getContextVersion,
		},
		{
			Pattern: "list context env [CONTEXT]", Group: "Contexts", Shell: true,
			Summary: "Show the variables of a context",
			Details: "Prints the variables of the context, or of the one that is used now, by name.",
			Example: "list context env example",
			JSON:    contextEnvJSON{},
			Run:     listContextEnv,
		},
		{
			Pattern: "get context env [CONTEXT] KEY", Group: "Contexts", Shell: true,
			Summary: "Show one variable of a context",
			Details: "Prints the variable KEY of the context, or of the one that is used now. Exit code 5 if it is not set.",
			Example: "get context env example DATASET",
			JSON:    Variable{},
			Run:     getContextEnv,
		},
		{
			Pattern: "set context env [CONTEXT] KEY VALUE", Group: "Contexts", Shell: true,
			Summary: "Set a variable of a context",
			Details: "Sets the variable KEY of the context, or of the one that is used now. Variables are for scripts and their writers: swarmctl keeps them with the context and gives them to no program. A context that is created again has none.",
			Example: "set context env example DATASET mnist",
			JSON:    Variable{},
			Run:     setContextEnv,
		},
	}
}

// contextInfoJSON is `get context info NAME -o json`.
type contextInfoJSON struct {
	Context  Context `json:"context" doc:"as it is saved"`
	Current  bool    `json:"current" doc:"commands use it"`
	Swarmctl string  `json:"swarmctl" doc:"version: as tagged, or devel"`
	API      string  `json:"api" doc:"version that swarmctl speaks, as in its methods' names"`

	facts fields
}

func (c contextInfoJSON) words(l *lines) { l.facts(c.facts) }

// contextVersionJSON is `get context version -o json`.
type contextVersionJSON struct {
	Swarmctl string `json:"swarmctl" doc:"as tagged, or devel"`
	SN       string `json:"sn" doc:"of the SN that answered, likewise; empty from one that does not tell"`
	API      string `json:"api" doc:"as in its methods' names"`
}

func (v contextVersionJSON) facts() (f fields) {
	f.add("SWCI_VERSION", v.Swarmctl)
	f.add("SN_VERSION", v.SN)
	f.add("API_VERSION", v.API)
	return f
}

func (v contextVersionJSON) words(l *lines) { l.facts(v.facts()) }

// contextEnvJSON is `list context env -o json`.
type contextEnvJSON struct {
	Name string     `json:"name" doc:"the context's"`
	Env  []Variable `json:"env" doc:"by key"`
}

func (e contextEnvJSON) words(l *lines) {
	for _, v := range e.Env {
		v.words(l)
	}
}

// apiVersion is the API's, as in its methods' names.
const apiVersion = "swarm.v1"

// usedContext is the context that is named, else the one that commands use.
func usedContext(s *Session, args Args, name string) (*Contexts, Context, error) {
	contexts, err := contextsOf(s)
	if err != nil {
		return nil, Context{}, err
	}
	c, err := contexts.Named(first(name, s.namedContext(args.Opts)))
	return contexts, c, err
}

func getContextInfo(_ context.Context, s *Session, args Args) error {
	contexts, c, err := usedContext(s, args, args.Value("NAME"))
	if err != nil {
		return err
	}
	info := contextInfoJSON{Context: c, Current: contexts.Current() == c.Name, Swarmctl: version.Read().Version, API: apiVersion}
	if info.facts, err = contextFacts(s, info); err != nil {
		return err
	}
	return s.show(info, func() error { return info.facts.table(s.Env.Stdout) })
}

// contextFacts are what is known of a context, an agent's directory among it.
func contextFacts(s *Session, info contextInfoJSON) (f fields, err error) {
	c := info.Context
	f.add("NAME", c.Name)
	f.add("CURRENT", yesNo(info.Current))
	for _, sn := range c.SNs {
		if c.Service {
			f.add("SERVICE", sn)
			continue
		}
		host, port, err := net.SplitHostPort(sn)
		if err != nil {
			host = sn
		}
		f.add("IP", host)
		f.add("PORT", port)
	}
	f.add("SWARM_ID", c.SwarmID)
	f.add("EPOCH", c.Epoch)
	f.add("IDENTITY", c.source())
	if c.Agent != nil {
		for _, o := range c.Agent.Options {
			f.add("SPIRE_AGENT", "-"+o.Name+"="+o.Value)
		}
		dir, err := c.Agent.dir(s.Env.Getenv)
		if err != nil {
			return nil, err
		}
		f.add("SPIRE_AGENT_STATE", dir)
	}
	f.add("TRUST_DOMAINS", strings.Join(c.TrustDomains, ", "))
	for _, v := range c.Env {
		f.add("ENV", v.Key+"="+v.Value)
	}
	f.add("SWCI_VERSION", info.Swarmctl)
	f.add("API_VERSION", info.API)
	return f, nil
}

func getContextVersion(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		swarm, err := api.GetSwarm(ctx)
		if err != nil {
			return fmt.Errorf("get context version: %w", err)
		}
		v := contextVersionJSON{version.Read().Version, swarm.GetVersion(), apiVersion}
		return s.show(v, func() error { return v.facts().table(s.Env.Stdout) })
	})
}

func listContextEnv(_ context.Context, s *Session, args Args) error {
	_, c, err := usedContext(s, args, args.Value("CONTEXT"))
	if err != nil {
		return err
	}
	return s.show(contextEnvJSON{c.Name, append([]Variable{}, c.Env...)}, func() error {
		t := table{header: []string{"KEY", "VALUE"}}
		for _, v := range c.Env {
			t.add(v.Key, v.Value)
		}
		return t.print(s.Env.Stdout)
	})
}

func getContextEnv(_ context.Context, s *Session, args Args) error {
	_, c, err := usedContext(s, args, args.Value("CONTEXT"))
	if err != nil {
		return err
	}
	i, found := variable(c.Env, args.Value("KEY"))
	if !found {
		return exit.New(exit.NotFound, "swarmctl list context env shows what is set", "context %s has no variable %q", c.Name, args.Value("KEY"))
	}
	return s.show(c.Env[i], func() error {
		_, err := fmt.Fprintln(s.Env.Stdout, c.Env[i].Value)
		return err
	})
}

// What a context keeps is bounded: it is read with every command.
const (
	maxVariables = 256
	maxValue     = 4096 // bytes
)

var variableKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

func setContextEnv(_ context.Context, s *Session, args Args) error {
	v := Variable{args.Value("KEY"), args.Value("VALUE")}
	if !variableKey.MatchString(v.Key) {
		return exit.New(exit.Usage, "use 1 to 128 of A-Z a-z 0-9 _ . -, beginning with a letter or _", "%.160q is no name of a variable", v.Key)
	}
	if len(v.Value) > maxValue {
		return exit.New(exit.Usage, "keep it in a file, and the file's name here", "the value of %s has more than %d bytes", v.Key, maxValue)
	}
	contexts, c, err := usedContext(s, args, args.Value("CONTEXT"))
	if err != nil {
		return err
	}
	i, found := variable(c.Env, v.Key)
	switch {
	case found:
		c.Env[i] = v
	case len(c.Env) >= maxVariables:
		return exit.New(exit.Usage, "set one that is there already", "context %s has %d variables, which is as many as it may", c.Name, maxVariables)
	default:
		c.Env = slices.Insert(c.Env, i, v)
	}
	if err := contexts.Save(c); err != nil {
		return err
	}
	return s.show(v, func() error {
		fmt.Fprintf(s.Env.Stderr, "%s is kept in context %s\n", v.Key, c.Name)
		return nil
	})
}

// variable finds where a key is in variables that are sorted, or belongs.
func variable(env []Variable, key string) (int, bool) {
	return slices.BinarySearchFunc(env, key, func(v Variable, key string) int { return strings.Compare(v.Key, key) })
}
