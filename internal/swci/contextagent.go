package swci

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/filelock"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/userdirs"
)

// KeptAgent is the SPIRE agent that brings a context's identity. It never holds a join token: the first command uses one up, and
// later ones go on with what the agent has in its state directory.
type KeptAgent struct {
	State   string         `json:"state" doc:"name of its own state directory, in swarmctl/agents of the user's state"`
	Options []AgentSetting `json:"options" doc:"it is started with these, by name; a join token is never among them"`
	Own     bool           `json:"own_token,omitempty" doc:"it was created with a join token of its own, so that in run-swci's container it takes none from the environment"`
}

// AgentSetting is an option of a SPIRE agent as a context keeps it.
type AgentSetting struct {
	Name  string `json:"name" doc:"the option's, without its dash"`
	Value string `json:"value" doc:"true or false where the option takes none; paths are absolute"`
}

const (
	bundleFile = "trust-bundle" // the copy of a trust bundle, in an agent's state directory
	maxBundle  = 1 << 20        // bytes
)

var agentState = regexp.MustCompile(`^[0-9a-f]{16}$`)

// dir is the agent's state directory.
func (k *KeptAgent) dir(getenv func(string) string) (string, error) {
	if !agentState.MatchString(k.State) {
		return "", exit.New(exit.Failed, "create the context again", "the context names no state directory of its SPIRE agent: %.80q", k.State)
	}
	base, err := userdirs.Of(getenv).User()
	return filepath.Join(base, "swarmctl", "agents", k.State), err
}

// given are the options that it is started with.
func (k *KeptAgent) given() map[string]string {
	out := map[string]string{}
	for _, o := range k.Options {
		out[o.Name] = o.Value
	}
	return out
}

// agentServer are the options that say whose agent one is.
func agentServer() []string { return []string{"config", "serverAddress", "serverPort", "trustDomain"} }

// another reports whether the options of a command line are for the agent of another server.
func (k *KeptAgent) another(line map[string]string) bool {
	kept := k.given()
	return slices.ContainsFunc(agentServer(), func(name string) bool {
		v, ok := line[name]
		if name == "config" {
			v = absolute(v)
		}
		return ok && v != kept[name]
	})
}

// alone reports whether it takes no join token from the environment: in a container that is another agent's.
func (k *KeptAgent) alone(getenv func(string) string) bool {
	return k.Own && getenv(start.InContainer) != ""
}

// without is an environment that lacks a variable.
func without(getenv func(string) string, variable string) func(string) string {
	return func(name string) string {
		if name == variable {
			return ""
		}
		return getenv(name)
	}
}

// over puts the options of a command line over the kept ones.
func (k *KeptAgent) over(line map[string]string) map[string]string {
	out := k.given()
	// Of each of these one counts.
	trusts := []string{"trustBundle", "trustBundleUrl", "insecureBootstrap"}
	has := func(name string) bool { _, ok := line[name]; return ok }
	if slices.ContainsFunc(trusts, has) {
		for _, name := range append(trusts, "trustBundleFormat") {
			delete(out, name)
		}
	}
	if has("joinToken") || line["gen-join-token"] == "false" {
		for _, o := range spire.JoinOptions() {
			delete(out, o.Name)
		}
	}
	maps.Copy(out, line)
	return out
}

// use makes c start its kept agent, with the options of a command line over the kept ones. A command that runs another while its own
// agent lasts uses that: only one runs in a directory.
func (c *Context) use(line map[string]string, getenv func(string) string) error {
	dir, err := c.Agent.dir(getenv)
	if err != nil {
		return err
	}
	if c.Agent.alone(getenv) {
		getenv = without(getenv, spire.AgentVariable("joinToken"))
	}
	if c.agent, err = parseAgent(c.Agent.over(line), getenv); err != nil {
		return err
	}
	if c.agent == nil {
		return exit.New(exit.Failed, "create the context again", "context %q keeps no option of its SPIRE agent", c.Name)
	}
	c.agent.StateDir = dir
	c.Identity, c.agentOptions = agentIdentity, "context's agent "+c.Agent.State
	return c.shareToken(line, getenv)
}

// shareToken has all contexts of a SWCI in a container, and commands without one, use the agent that has used the container's join token: there is
// no other token, and nothing outlives the container. A context that was created with a token of its own has an agent of its own, as has each
// server's.
func (c *Context) shareToken(line map[string]string, getenv func(string) string) error {
	if c.agent == nil || getenv(start.InContainer) == "" {
		return nil
	}
	token := getenv(spire.AgentVariable("joinToken"))
	if c.agent.GenJoinToken != nil {
		token = c.agent.GenJoinToken.File
	}
	if own := line["joinToken"]; token == "" || own != "" && own != token || c.agent.StateDir != "" && needsNoToken(c.agent) {
		return nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d %q", token, c.agent.ConfigFile, c.agent.ServerAddress, c.agent.ServerPort, c.agent.TrustDomain)
	shared := KeptAgent{State: hex.EncodeToString(h.Sum(nil)[:8])}
	dir, err := shared.dir(getenv)
	if err != nil {
		return err
	}
	c.agent.StateDir, c.agentOptions = dir, "shared agent "+shared.State
	return identity.PrivateDir(dir)
}

// keep gives the context called name an agent of its own, as a command line describes it. A context of that name with an agent of the
// same server, or a try that failed, has left its state: that agent needs no other token.
func (c *Context) keep(name string, line map[string]string, getenv func(string) string) error {
	h := sha256.New()
	fmt.Fprintf(h, "%q", name)
	kept := map[string]string{}
	for k, v := range line {
		if k == "joinToken" {
			continue
		}
		if slices.Contains([]string{"config", "dataDir", "join-file", "logFile", "socketPath", "spire-server-socket"}, k) {
			v = absolute(v)
		}
		kept[k] = v
	}
	for _, k := range agentServer() {
		fmt.Fprintf(h, " %q", kept[k])
	}
	token := line["joinToken"]
	c.Agent = &KeptAgent{State: hex.EncodeToString(h.Sum(nil)[:8]), Own: token != "" && token != getenv(spire.AgentVariable("joinToken"))}
	dir, err := c.Agent.dir(getenv)
	if err != nil {
		return err
	}
	if err := keepBundle(dir, kept); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(kept)) {
		c.Agent.Options = append(c.Agent.Options, AgentSetting{k, kept[k]})
	}
	var once map[string]string
	if token != "" {
		once = map[string]string{"joinToken": token}
	}
	return c.use(once, getenv)
}

// keepBundle copies the trust bundle that kept names into an agent's state directory, which is made, and names the copy instead; without
// any it names the copy of an earlier time.
func keepBundle(dir string, kept map[string]string) error {
	if err := identity.PrivateDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, bundleFile)
	from, ok := kept["trustBundle"]
	if !ok {
		if _, err := os.Stat(path); err == nil && kept["trustBundleUrl"] == "" && kept["insecureBootstrap"] == "" && kept["config"] == "" {
			kept["trustBundle"] = path
		}
		return nil
	}
	raw, err := readBundle(from)
	if err != nil {
		return &exit.Error{Status: exit.Usage, Err: fmt.Errorf("-trustBundle: %w", err), Hint: "give what `spire-server bundle show` prints on the server's machine"}
	}
	kept["trustBundle"] = path
	return atomicfile.Replace(path, raw, 0o600)
}

func readBundle(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	if err == nil && len(raw) > maxBundle {
		err = fmt.Errorf("%s has more than %d bytes", path, maxBundle)
	}
	return raw, err
}

// absolute is a path wherever later commands run.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		return abs
	}
	return path
}

// needsNoToken reports whether the agent goes on with what it has from an earlier command.
func needsNoToken(cfg *spire.AgentConfig) bool {
	dir := filepath.Join(cfg.StateDir, "data")
	for _, arg := range cfg.Args {
		if d, ok := strings.CutPrefix(arg, "-dataDir="); ok {
			dir = d
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "agent-data.json"))
	return err == nil && spire.HasUsableData(raw)
}

// rejoin is what to type when the agent of a context can't come back by itself; nil if that is not what is wrong.
func (c Context) rejoin(getenv func(string) string) error {
	if c.Agent == nil || c.Name == "" || c.agent.GenJoinToken != nil || c.agent.JoinToken != "" || c.agent.ConfigFile != "" || needsNoToken(c.agent) {
		return nil
	}
	bundle := ""
	if o := c.Agent.given(); cmp.Or(o["trustBundle"], o["trustBundleUrl"], o["insecureBootstrap"]) == "" {
		bundle = " -trustBundle FILE"
	}
	again := fmt.Sprintf("%s=TOKEN swarmctl identity --context %s%s", spire.AgentVariable("joinToken"), c.Name, bundle)
	if c.Agent.alone(getenv) {
		again = fmt.Sprintf("identity --context %s -joinToken TOKEN%s", c.Name, bundle)
	}
	return exit.New(exit.Unreachable, "swarmd spire-token swci on the SPIRE server's machine, then here: "+again,
		"the SPIRE agent of context %s has no identity any more: it expired while no command ran, or the SPIRE server removed the agent", c.Name)
}

// dropAgent removes the state of an agent that no context names any more, and says where it was if a command still uses it.
func (c *Contexts) dropAgent(k *KeptAgent, getenv func(string) string, say func(string)) error {
	if k == nil || c.under != nil { // a client of web mode has none
		return nil
	}
	all, err := c.List()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(other Context) bool { return other.Agent != nil && other.Agent.State == k.State }) {
		return nil
	}
	dir, err := k.dir(getenv)
	if err != nil {
		return err
	}
	lock, err := filelock.Take(filepath.Join(dir, "lock"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, filelock.ErrLocked):
		say("another command still uses the SPIRE agent that no context has any more; remove its state later: " + dir)
		return nil
	case err != nil:
		return fmt.Errorf("remove the state of a SPIRE agent that no context has any more: %w", err)
	default:
		defer lock.Close()
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the state of a SPIRE agent that no context has any more: %w", err)
	}
	return nil
}
