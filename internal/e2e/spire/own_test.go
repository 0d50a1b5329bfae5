package spire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// What a user types: a server with an entry for each SL, nodes that make their join tokens and start their agents
// themselves. Nobody writes a configuration file.
func TestServerAndAgentsOfSwarmd(t *testing.T) {
	t.Parallel()
	e2etest.NeedPython(t)
	for _, name := range []string{"spire-server", "spire-agent"} {
		e2etest.Spire(t, name)
	}
	dir, port := spiretest.TempDir(t), fmt.Sprint(spiretest.FreePort(t))
	start := func() *e2etest.Proc {
		p := e2etest.Start(t, "run-spire-server", dir, nil, "swarmd", "run-spire-server", "--state-dir", dir+"/server",
			"--node", "sl/sl-1", "--node", "sl/sl-2", "-bindAddress", "127.0.0.1", "-serverPort", port)
		p.Sees("SPIRE server is ready")
		return p
	}
	server := start()
	options := []string{"-serverAddress", "127.0.0.1", "-serverPort", port, "-genJoinToken", "--spire-server-socket", dir + "/server/api.sock"}
	w := &swarm{Swarm: e2etest.NewSwarm(t, func(string, int) []string { return options })}
	sn := w.sns(1)[0]
	sls := w.sls(2, "BATCHES=100", "BATCH_SECONDS=0.1")
	for i, p := range sls {
		p.Sees(fmt.Sprintf("spiffe://swarm.learning/swarm/sl/sl-%d", i+1), "round=3 ")
	}
	if !strings.Contains(sn.Output(), "spiffe://swarm.learning/swarm/sn ") {
		t.Errorf("sn-1 has not the shared identity of SNs")
	}
	// The server's restart disturbs nobody, nor does it make entries again.
	server.Stop()
	server = start()
	finish(t, sls...)
	for _, p := range sls {
		unbroken(t, p)
	}
	w.Agree(1, 2)
	sn.Stop()
	// An SN that stopped as asked starts again with what its agent has kept.
	w.sns(1)[0].Stop()
	server.Stop()
	w.LeavesNothing()
}
