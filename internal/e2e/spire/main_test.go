package spire_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const apiMarker = "swarm.blCnt : INFO : Starting SWARM-API-SERVER on port: 30304"

// atOnce is how many tests run at a time, whatever the processors: most of them wait for certificates to end.
const atOnce = "5"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(e2etest.Main(m))
}

// binary is the path of a binary under test.
func binary(name string) string { return filepath.Join(e2etest.BinDir, name) }

// swarm is a swarm on SPIRE.
type swarm struct {
	*e2etest.Swarm
	server *spiretest.Server
	agents map[string]*spiretest.Agent // by node or role; see agent
	extra  map[string][]string         // options of a node: "sl-1"
}

// newSwarm gives a test its swarm, without nodes and agents.
func newSwarm(t *testing.T, server *spiretest.Server) *swarm {
	t.Helper()
	e2etest.NeedPython(t)
	w := &swarm{server: server, agents: map[string]*spiretest.Agent{}, extra: map[string][]string{}}
	w.Swarm = e2etest.NewSwarm(t, func(role string, i int) []string {
		name := node(role, i)
		return append([]string{"--socket-path", w.agent(name, role).Socket}, w.extra[name]...)
	})
	return w
}

func node(role string, i int) string { return fmt.Sprintf("%s-%d", role, i) }

// agent is the node's own agent, else its role's, else the one for all.
func (w *swarm) agent(name, role string) *spiretest.Agent {
	w.T.Helper()
	for _, key := range []string{name, role, ""} {
		if a := w.agents[key]; a != nil {
			return a
		}
	}
	w.T.Fatalf("no agent for %s", name)
	return nil
}

var roles = []string{"sn", "sl", "swci"}

// shared gives the swarm one agent for all, and the seed's entries: all nodes of a role have one SPIFFE ID.
func (w *swarm) shared() {
	w.T.Helper()
	w.sharedAt("/swarm/")
}

// sharedAt is shared with something else before the role.
func (w *swarm) sharedAt(prefix string) {
	w.T.Helper()
	var aliases []string
	for _, role := range roles {
		w.server.CreateEntry(spiretest.Entry{ID: prefix + role, Parent: "/swarm/" + role + "-agent", Selectors: []string{"swarm:node-type:" + role}})
		aliases = append(aliases, "/swarm/"+role+"-agent")
	}
	w.agents[""] = spiretest.NewAgent(w.T, w.server, spiretest.AgentOptions{Name: "shared", Aliases: aliases, Swarmd: binary("swarmd")})
}

// own gives a node an agent and an entry of its own, so that no other agent can hand its identity out.
func (w *swarm) own(name string) {
	w.T.Helper()
	w.ownAt(w.server, name)
}

// ownAt is own with a server, whose entry federates with other trust domains.
func (w *swarm) ownAt(server *spiretest.Server, name string, federatesWith ...string) {
	w.T.Helper()
	role := name[:2]
	parent := "/swarm/" + role + "-agent/" + name
	server.CreateEntry(spiretest.Entry{
		ID: "/swarm/" + role + "/" + name, Parent: parent, Selectors: []string{"swarm:node-type:" + role}, FederatesWith: federatesWith,
	})
	w.agents[name] = spiretest.NewAgent(w.T, server, spiretest.AgentOptions{Name: name, Aliases: []string{parent}, Swarmd: binary("swarmd")})
}

// sns starts SNs 1 to n and waits until they serve.
func (w *swarm) sns(n int) (all []*e2etest.Proc) {
	w.T.Helper()
	for i := range n {
		all = append(all, w.SN(i+1))
	}
	for _, p := range all {
		p.Sees(apiMarker)
	}
	return all
}

// sls starts SLs 1 to n, all at SN 1. The first round waits for all.
func (w *swarm) sls(n int, extra ...string) (all []*e2etest.Proc) {
	w.T.Helper()
	for i := range n {
		all = append(all, w.sl(i+1, append([]string{fmt.Sprintf("--expected-peers=%d", n)}, extra...)...))
	}
	return all
}

// sl starts SL i at SN 1.
func (w *swarm) sl(i int, extra ...string) *e2etest.Proc {
	w.T.Helper()
	return w.SL(i, append([]string{"--sn-ip=" + w.Addr(1)}, extra...)...)
}

func finish(t *testing.T, sls ...*e2etest.Proc) {
	t.Helper()
	for _, p := range sls {
		if code := p.Exits(); code != 0 {
			t.Errorf("%s: exit code %d, want 0", p.Name, code)
		}
	}
}

// swarmctl runs a command that must succeed, as a workload of the agent for all.
func (w *swarm) swarmctl(args ...string) string {
	w.T.Helper()
	return ctl(w.T, w.Dir, append(args, "--sn", w.Addr(1)+":30304", "--identity", w.agent("swci", "swci").Socket)...)
}

// ctl runs swarmctl, which must succeed.
func ctl(t *testing.T, dir string, args ...string) string {
	t.Helper()
	p := e2etest.Start(t, "swarmctl", dir, nil, append([]string{"swarmctl"}, args...)...)
	p.Ends(e2etest.Timeout)
	return p.Output()
}
