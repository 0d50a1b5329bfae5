package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// unfit is the exit code of scripts/web where Node.js or Chromium is missing.
const unfit = 3

// TestThePageOfARealSwarmForMinutes opens the page of swarmctl dashboard in Chromium while peers train. web/test/live.mjs compares what it shows with what
// swarmctl prints, while an SL and the SN that is asked are killed, a node is banned and a task is approved on the page.
func TestThePageOfARealSwarmForMinutes(t *testing.T) {
	e2etest.NeedPython(t)
	w := newSwarm(t)
	w.namedAuthority("bob", "/swarm/swci/bob", 3)
	pids, apis := map[string]int{}, []string{}
	for i := 1; i <= 3; i++ {
		p := w.SN(i)
		p.Sees(apiMarker)
		pids[p.Name] = p.Cmd.Process.Pid
		apis = append(apis, w.Addr(i)+":30304")
	}
	w.owned("ask: true\napprovers: [spiffe://swarm.learning/swarm/swci/bob]\nsentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='process'}\n", "--ml-runtime", "process")
	for _, p := range w.trains(3, "MIN_PEERS=1", "BATCHES=10000", "BATCH_SECONDS=0.2", "LOSS=1") {
		pids[p.Name] = p.Cmd.Process.Pid
	}
	w.runs(client.Tasks{By: client.Operator{Client: w.client(identity.RoleSWCI, nil)}}, 1, "", "MIN_PEERS: 1, CONTRACT: approved") // not by bob, who then may approve it

	at := []string{"--identity", embedded.SocketPath(w.Path("ca"), "bob")}
	board := []string{"swarmctl", "dashboard", "--actions", "--listen", w.Addr(30) + ":30309"}
	for _, api := range apis {
		board = append(board, "--sn", api)
	}
	board = append(board, at...)
	dashboard := e2etest.Start(t, "dashboard", w.Dir, nil, board...)
	dashboard.Sees("dashboard: http")
	address := regexp.MustCompile(`dashboard: (http\S+)`).FindStringSubmatch(dashboard.Output())[1]
	if code, out := w.tool(board...); code != exit.Conflict || !strings.Contains(out, ":30309 is in use: another dashboard may be running\nhint: use the dashboard that is there, or give another port with --listen\n") {
		t.Errorf("a second dashboard on the port: exit code %d, %s", code, out)
	}

	live, err := json.Marshal(map[string]any{"address": address, "ctl": filepath.Join(e2etest.BinDir, "swarmctl"), "at": at, "sns": apis, "pids": pids, "contract": "e2e"})
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "scripts", "web"))
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("SWARM_CACHE")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache", "swarmd")
	}
	page := e2etest.Start(t, "page", w.Dir, []string{"SWARM_CACHE=" + cache, fmt.Sprintf("LIVE=%s", live)}, script, "live")
	select {
	case <-page.Done:
	case <-time.After(2 * time.Minute):
		t.Fatal("the page's test does not end")
	}
	if code := page.Cmd.ProcessState.ExitCode(); code == unfit {
		t.Skip(e2etest.Last(page.Output(), 1))
	} else if code != 0 {
		t.Errorf("exit code %d\n%s", code, page.Output())
	}
}
