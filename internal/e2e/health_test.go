package e2e_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// tool runs a command of swarmd or swarmctl to its end.
func (w *swarm) tool(args ...string) (code int, out string) {
	w.T.Helper()
	if !filepath.IsAbs(args[0]) {
		args[0] = filepath.Join(e2etest.BinDir, args[0])
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = w.Dir, []string{"HOME=" + w.Dir}
	text, err := cmd.CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		w.T.Fatalf("%v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// swarmctl is tool for a command that asks the first SN.
func (w *swarm) swarmctl(args ...string) (code int, out string) {
	w.T.Helper()
	args = append([]string{"swarmctl"}, args...)
	return w.tool(append(args, "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))...)
}

func TestHealthFromTheFirstMoment(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	dir := w.Path("sn1")
	code, out := w.tool("swarmd", "health", "--state-dir", dir)
	if code != 1 || !strings.Contains(out, "no swarmd runs with state directory "+dir) {
		t.Errorf("before the start: %d %s", code, out)
	}
	sn := w.SN(1)
	sn.Sees("waiting for an identity")
	code, out = w.tool("swarmd", "health", "--state-dir", dir)
	if code != 1 || !strings.Contains(out, "unhealthy: it has no identity yet and waits for one from the Workload API at "+w.Path("ca", "sn.sock")) {
		t.Errorf("without an authority: %d %s", code, out)
	}
	w.authority()
	sn.Sees(apiMarker)
	code, out = w.tool("swarmd", "health", "--state-dir", dir)
	if code != 0 || !strings.HasPrefix(out, "healthy until 20") {
		t.Errorf("up: %d %s", code, out)
	}

	s := w.source("ca", identity.RoleSWCI)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: identity.ClientTLS(s, w.domains(s), identity.RoleSN)}}
	res, err := c.Get("https://" + w.Addr(1) + ":30304/is_up")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	c.CloseIdleConnections()
	if err != nil || res.StatusCode != http.StatusOK || string(body) != "OK" || !strings.HasPrefix(out, "healthy until "+res.Header.Get("Swarm-Healthy-Until")) {
		t.Errorf("is_up: %s %q %v, %v", res.Status, body, res.Header, err)
	}
	sn.Stop()
	if code, out = w.tool("swarmd", "health", "--state-dir", dir); code != 1 || !strings.Contains(out, "no swarmd runs") {
		t.Errorf("stopped: %d %s", code, out)
	}
}

func TestHealthOfASwarm(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	w.attach(1).Sees("registered with the swarm")
	ask := func() (code int, nodes map[string]map[string]any, out string) {
		code, out = w.swarmctl("get", "health", "-o", "json")
		var doc struct{ Nodes []map[string]any }
		text, _, _ := strings.Cut(out, "\nswarmctl: ")
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			return code, nil, out
		}
		nodes = map[string]map[string]any{}
		for _, n := range doc.Nodes {
			nodes[n["name"].(string)] = n
		}
		return code, nodes, out
	}
	w.Until("all nodes are healthy", func() bool {
		code, nodes, _ := ask()
		return code == 0 && len(nodes) == 4
	})
	_, nodes, out := ask()
	for name, n := range nodes {
		if n["healthy"] != true || n["until"] == nil || n["leader_seen"] == nil || n["svid_not_after"] == nil || !strings.HasPrefix(n["source"].(string), "Workload API at "+w.Path("ca")) {
			t.Errorf("%s: %v", name, n)
		}
	}
	if nodes["sl-1"] == nil || nodes["sn-3"]["role"] != "sn" {
		t.Errorf("got %s", out)
	}
	sns[2].Stop()
	code, nodes, out := ask()
	if code != 1 || len(nodes) != 4 || nodes["sn-3"]["healthy"] != false || !strings.Contains(nodes["sn-3"]["reason"].(string), "cannot reach SN "+w.Addr(3)) || !strings.Contains(out, "1 of 4 nodes not healthy") {
		t.Errorf("one SN stopped: %d %s", code, out)
	}
}

func TestIdentityCheckOfARealNode(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	w.one()
	w.attach(1).Sees("registered with the swarm")
	e2etest.Start(t, "foreign authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca2")).Sees("embedded authority started")
	for _, c := range []struct {
		address, ca string
		code        int
		want        []string
	}{
		{w.Addr(1) + ":30304", "ca", 0, []string{"as the API of an SN", "spiffe://swarm.learning/swarm/sn", "it accepts ours", "healthy until"}},
		{w.Addr(1) + ":30303", "ca", 0, []string{"libp2p", "spiffe://swarm.learning/swarm/sn", "it accepts ours"}},
		{w.Addr(11) + ":30305", "ca", 0, []string{"libp2p", "spiffe://swarm.learning/swarm/sl", "it accepts ours"}},
		{w.Addr(1) + ":30304", "ca2", 1, []string{"spiffe://swarm.learning/swarm/sn", "FAILED  accepted here", "not signed by an authority that this node trusts"}},
		{w.Addr(1) + ":30305", "ca2", 1, []string{"spiffe://swarm.learning/swarm/sn", "FAILED  accepted here", "not signed by an authority that this node trusts"}},
		{w.Addr(1) + ":1", "ca", 1, []string{"FAILED  connection", "nothing listens"}},
	} {
		code, out := w.tool("swarmctl", "identity", "check", c.address, "--identity", "embedded="+w.Path(c.ca))
		if code != c.code {
			t.Errorf("%s by %s: exit code %d, want %d\n%s", c.address, c.ca, code, c.code, out)
		}
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				t.Errorf("%s by %s: it does not say %q\n%s", c.address, c.ca, text, out)
			}
		}
	}
	if code, out := w.tool("swarmctl", "identity", "--identity", "embedded="+w.Path("ca")); code != 0 || !strings.Contains(out, "spiffe://swarm.learning/swarm/swci") {
		t.Errorf("identity: %d %s", code, out)
	}
}
