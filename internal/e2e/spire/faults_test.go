package spire_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// rounds counts the models that an SL handed to its program.
func rounds(p *e2etest.Proc) int {
	return strings.Count(p.Output(), "model handed to the program")
}

// advances waits until an SL has merged n rounds more.
func (w *swarm) advances(p *e2etest.Proc, n int) {
	w.T.Helper()
	from := rounds(p)
	w.Until(fmt.Sprintf("%d more rounds at %s", n, p.Name), func() bool { return rounds(p) >= from+n })
}

// Whoever comes before its agent waits and says so.
func TestAgentAbsentAtStart(t *testing.T) {
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{})
	w := newSwarm(t, server)
	server.CreateEntry(spiretest.Entry{ID: "/swarm/sn", Parent: "/agent", Selectors: []string{"swarm:node-type:sn"}})
	agent := spiretest.NewAgent(t, server, spiretest.AgentOptions{Lazy: true, Aliases: []string{"/agent"}, Swarmd: binary("swarmd")})
	w.agents[""] = agent
	sn := w.SN(1)
	sn.Sees("waiting for an identity", "nobody serves "+agent.Socket+": start the SPIFFE agent")
	agent.Start()
	sn.Sees(apiMarker)
	sn.Stop()
}

// An agent that dies takes nothing with it while the identities are valid.
func TestAgentDiesAndReturns(t *testing.T) {
	t.Parallel()
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{SVIDTTL: 20 * time.Second}))
	w.shared()
	w.sns(1)
	sls := w.sls(2, "BATCHES=160", "BATCH_SECONDS=0.1")
	sls[0].Sees("round=5 ")
	agent := w.agent("", "")
	agent.Kill()
	for _, p := range sls {
		p.Sees("workload API does not answer: keeping the last identity until it expires")
		w.advances(p, 5)
	}
	agent.Start()
	for _, p := range sls {
		p.Sees("workload API answers again")
	}
	finish(t, sls...)
	for _, p := range sls {
		unbroken(t, p)
	}
	w.Agree(1, 2)
}

// A server that is away for longer than the identities live: the swarm goes on while they do, then waits, then goes on.
func TestServerAwayTooLong(t *testing.T) {
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{SVIDTTL: 15 * time.Second})
	w, _, sls := training(t, server)
	server.Kill()
	w.outlives(sls)
	server.Start()
	w.endsWell(sls)
}

// A server that is lost with its disk, for longer than the identities live, and comes back from a backup of its datastore and its keys:
// docs/operations/backup.md. Nothing of the swarm is started again.
func TestServerIsRestoredFromBackup(t *testing.T) {
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{SVIDTTL: 15 * time.Second})
	w, sn, sls := training(t, server)
	saved := server.Backup()
	server.LoseDisk()
	w.outlives(sls)
	for _, p := range append(sls, sn) {
		p.Sees("identity is not renewed on schedule", "identity nears its end warning=\"the certificate expired at ")
	}
	server.Restore(saved)
	w.endsWell(sls)
}

// training is a swarm of one SN and two SLs in their fifth round, of 152.
func training(t *testing.T, server *spiretest.Server) (w *swarm, sn *e2etest.Proc, sls []*e2etest.Proc) {
	t.Helper()
	w = newSwarm(t, server)
	w.shared()
	sn = w.sns(1)[0]
	sls = w.sls(2, "BATCHES=300", "BATCH_SECONDS=0.1")
	for _, p := range sls {
		p.Sees("round=5 ")
	}
	return w, sn, sls
}

// outlives waits until the training has outlived all its SVIDs, which nothing renews, and stands still since they ended.
func (w *swarm) outlives(sls []*e2etest.Proc) {
	t := w.T
	t.Helper()
	w.advances(sls[0], 20)
	// Nothing renews them any more, so these are the last.
	var first, last time.Time
	for addr, begin := range map[string]func(net.Conn) error{w.Addr(1) + ":30304": nil, w.Addr(11) + ":30305": knock, w.Addr(12) + ":30305": knock} {
		c := shown(addr, begin)
		if c == nil {
			t.Fatalf("%s shows no certificate", addr)
		}
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	w.Until("end of all SVIDs", func() bool { return time.Now().After(last) })
	was, since := rounds(sls[0]), time.Now()
	w.Until("rest of the training", func() bool {
		if n := rounds(sls[0]); n != was {
			was, since = n, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	if end := lastRound(t, sls[0]); end.Before(first.Add(-5*time.Second)) || end.After(last.Add(time.Second)) {
		t.Errorf("the training stopped at %s, want when the SVIDs ended, from %s to %s", end, first, last)
	}
}

// endsWell wants the training to end with the model of its last round.
func (w *swarm) endsWell(sls []*e2etest.Proc) {
	w.T.Helper()
	for _, p := range sls {
		p.Ends(2 * time.Minute)
	}
	if e := w.Agree(1, 2); e.Rounds != 152 {
		w.T.Errorf("got %d rounds, want 152", e.Rounds)
	}
}

// What a node's own agent can't join with is said once, with the way to mend it, and is the end.
func TestJoinTokens(t *testing.T) {
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{})
	w := newSwarm(t, server)
	bundle := w.Path("bundle.pem")
	if err := os.WriteFile(bundle, spiretest.PEM(server.Bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(i int, token string, extra ...string) *e2etest.Proc {
		return e2etest.Start(t, node("sl", i), w.Dir, nil, append([]string{
			"swarmd", "run-sl", "--name", node("sl", i), "--host-ip", w.Addr(10 + i), "--sn-ip", w.Addr(1), "--attach",
			"--state-dir", w.Path(fmt.Sprintf("sl%d", i)), "--bridge-dir", w.Bridge(i),
			"-serverAddress", "127.0.0.1", "-serverPort", fmt.Sprint(server.Port), "-trustBundle", bundle, "-joinToken", token,
		}, extra...)...)
	}
	t.Run("expired", func(t *testing.T) {
		token, made := server.JoinToken(time.Second), time.Now()
		<-time.After(time.Until(made.Add(2 * time.Second))) // tokens have whole seconds
		run(1, token).Fails("refuses this agent (join token expired)", "make a new join token", "swarmd spire-token sl/sl-1")
	})
	t.Run("used", func(t *testing.T) {
		agent := spiretest.NewAgent(t, server, spiretest.AgentOptions{})
		run(2, agent.Token).Fails("refuses this agent (", "already been used)", "make a new join token", "swarmd spire-token sl/sl-2")
	})
	t.Run("wrong trust domain", func(t *testing.T) {
		run(3, server.JoinToken(time.Minute), "-trustDomain", "other.test").Fails("trust domain other.test", "-trustDomain")
	})
	t.Run("no server", func(t *testing.T) {
		p := run(4, "token", "-serverPort", fmt.Sprint(spiretest.FreePort(t)))
		p.Sees("does not answer", "connection refused", "-serverAddress")
		p.Stop()
	})
}

var createCommand = regexp.MustCompile(`spire-server (entry create -parentID \S+ -spiffeID \S+ -selector [^\s"]+)`)

// A node without an entry says what its agent saw and the very command that helps.
func TestNoEntry(t *testing.T) {
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{})
	w := newSwarm(t, server)
	bundle := w.Path("bundle.pem")
	if err := os.WriteFile(bundle, spiretest.PEM(server.Bundle()), 0o600); err != nil {
		t.Fatal(err)
	}
	sn := e2etest.Start(t, "sn-1", w.Dir, nil,
		"swarmd", "run-sn", "--name", "sn-1", "--host-ip", w.Addr(1), "--sentinel-ip", w.Addr(1), "--state-dir", w.Path("sn1"),
		"-serverAddress", "127.0.0.1", "-serverPort", fmt.Sprint(server.Port), "-trustBundle", bundle, "-joinToken", server.JoinToken(time.Minute))
	sn.Sees("the SPIRE agent has no entry for this process: it saw the selectors ", "swarm:node-type:sn", spiretest.UID())
	command := createCommand.FindStringSubmatch(sn.Output())
	if command == nil {
		t.Fatalf("no command is given")
	}
	args := append(strings.Fields(command[1]), "-socketPath", server.Socket)
	if out, err := exec.Command(filepath.Join(e2etest.BinDir, "spire-server"), args...).CombinedOutput(); err != nil {
		t.Fatalf("spire-server %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	sn.Sees(apiMarker)

	// At an agent of the host the node knows only what it would be given.
	w.agents["sl"] = spiretest.NewAgent(t, server, spiretest.AgentOptions{Swarmd: binary("swarmd")})
	sl := w.sl(1)
	sl.Sees("has no entry for this process", "swarm:node-type:sl", "spire-server entry create")
	sl.Stop()
	sn.Stop()
}

// A node of another trust domain refuses the swarm, and says why.
func TestWrongTrustDomain(t *testing.T) {
	t.Parallel()
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{}))
	w.own("sn-1")
	other := spiretest.NewServer(t, spiretest.Options{TrustDomain: "other.test"})
	other.CreateEntry(spiretest.Entry{ID: "/swarm/sl", Parent: "/agent", Selectors: []string{"swarm:node-type:sl"}})
	w.agents["sl"] = spiretest.NewAgent(t, other, spiretest.AgentOptions{Aliases: []string{"/agent"}, Swarmd: binary("swarmd")})
	w.sns(1)
	sl := w.sl(1)
	sl.Sees("waiting for the swarm", "there is no X.509 bundle for trust domain", "only of: other.test", "add --trust-domain swarm.learning")
	sl.Stop()
}
