package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestThePageOfARealSwarmForMinutes opens the page of swarmctl dashboard in Chromium while peers train. web/test/live/swarm.mjs compares what all pages show with
// what swarmctl prints, while an SL is killed when its model is to be merged, a node is banned, a job is refused and a task approved on the page, and the SN that is asked is killed.
func TestThePageOfARealSwarmForMinutes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.namedAuthority("bob", "/swarm/swci/bob", 3)
	apis := s.sns(3)
	if code, out := s.swarmctl("create", "contract", "e2e", "--min-peers", "1", "--expected-peers", "3", "--quorum-wait", "3s", "--stall-grace", "1s"); code != 0 {
		t.Fatalf("create contract: exit code %d, %s", code, out)
	}
	s.owned("ask: true\napprovers: [spiffe://swarm.learning/swarm/swci/bob]\nsentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='process'}\nfolders: {runs: {path: "+s.Path("runs")+", use: runs}}\n", "--ml-runtime", "process")
	for i := 1; i <= 3; i++ {
		batch := "BATCH_SECONDS=0.1"
		if i == 2 {
			batch = "BATCH_SECONDS=0.4" // the others wait for it
		}
		p := s.SL(i, "MIN_PEERS=1", "BATCHES=10000", batch, "LOSS=1", fmt.Sprintf("WEIGHT=%d", 20*i), "--expected-peers=3")
		s.procs[p.Name] = p
	}
	s.runs(client.Tasks{By: client.Operator{Client: s.client(identity.RoleSWCI, nil)}}, 1, "", "MIN_PEERS: 1, CONTRACT: approved") // not by bob, who then may approve it
	if code, out := s.swarmctl("run", "job", s.written("primes", "", "print(1)\n")); code != 0 {
		t.Fatalf("run job: exit code %d, %s", code, out)
	}
	bundle := s.Path("founding-ca.pem")
	if code, out := s.tool("swarmctl", "get", "bundle", "--out", bundle, "--identity", "embedded="+s.Path("ca")); code != 0 {
		t.Fatalf("get bundle: exit code %d, %s", code, out)
	}

	at := []string{"--identity", embedded.SocketPath(s.Path("ca"), "bob")}
	board := slices.Concat([]string{"--actions", "--bundle", bundle}, at)
	for _, name := range slices.Sorted(maps.Keys(apis)) {
		board = append(board, "--sn", apis[name])
	}
	address := s.board(board...)
	if code, out := s.tool(append([]string{"swarmctl", "dashboard", "--listen", s.Addr(30) + ":30309"}, board...)...); code != exit.Conflict || !strings.Contains(out, ":30309 is in use: another dashboard may be running\nhint: use the dashboard that is there, or give another port with --listen\n") {
		t.Errorf("a second dashboard on the port: exit code %d, %s", code, out)
	}
	s.does["killReady"] = func(name string) { // while it waits for sl-2, and the SNs know that it is ready: it is part of the merge that follows
		seen := 0
		s.Until(name+" to be ready for a merge", func() bool {
			if st := s.Status(3); st == nil || st["phase"] != "ready" {
				seen = 0
			} else {
				seen++
			}
			return seen == 30
		})
		s.kill(name)
	}
	s.plays("swarm", map[string]any{"address": address, "at": at, "sns": apis, "contract": "e2e", "bundle": bundle, "scratch": s.Path("scratch")})
}

// TestThePageOfASwarmInTroubleForMinutes: the identity expires, the contract is reset, all SNs are lost, one of another swarm is at their address, and the dashboard
// itself ends, each while the page is open. web/test/live/trouble.mjs wants it to say so, and what to do, and to go on by itself.
func TestThePageOfASwarmInTroubleForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("waits for what expires: SWARM_TEST_LONG=1 or make test-long")
	}
	s := newStage(t)
	s.authority()
	apis := s.sns(1)
	for _, i := range []int{1, 4} { // whose SN is the first
		name := fmt.Sprintf("sl-%d", i)
		s.starts[name] = func() *e2etest.Proc { return s.SL(i, "BATCHES=10000", "BATCH_SECONDS=0.2", "LOSS=1") }
		s.procs[name] = s.starts[name]()
	}
	s.procs["sl-1"].Sees("round=1 ")
	const swci = "spiffe://swarm.learning/swarm/swci"
	board := append([]string{"--sn", s.api(1)}, s.issue(swci, 25*time.Second)...)
	address := s.board(board...)
	s.does["renew"] = func(string) { s.issue(swci, time.Hour) }
	s.does["start-other-swarm"] = func(string) {
		s.procs["stranger"] = s.Start(1, "stranger", "swarmd", "run-sn", "--name", "stranger", "--host-ip", s.Addr(1), "--sentinel-ip", s.Addr(1), "--state-dir", s.Path("stranger"), "--found-at-once", "--identity", "embedded="+s.Path("ca"))
		s.procs["stranger"].Sees(apiMarker)
	}
	again := s.Path("again")
	s.does["start-dashboard"] = func(string) {
		if err := os.WriteFile(again, []byte(s.board(board...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.plays("trouble", map[string]any{"address": address, "at": []string{"--identity", "embedded=" + s.Path("ca")}, "sns": apis, "contract": "e2e", "again": again})
}
