package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// statefulSet is a swarm of the SNs sn-0, sn-1 and sn-2, as docs/operations/kubernetes.md has it.
type statefulSet struct {
	*swarm
	founding []string // options of all SNs
	pods     []*e2etest.Proc
}

func newStatefulSet(t *testing.T, founding ...string) *statefulSet {
	t.Helper()
	s := &statefulSet{swarm: newSwarm(t), founding: founding}
	s.authority()
	for i := range 3 {
		s.pods = append(s.pods, s.start(i))
		if len(founding) > 0 && i > 0 {
			s.typed(0, s.pods[i], "admit node")
		}
	}
	for _, p := range s.pods {
		p.Sees(apiMarker)
	}
	return s
}

// start is pod i's usual command with more arguments.
func (s *statefulSet) start(i int, extra ...string) *e2etest.Proc {
	s.T.Helper()
	args := append([]string{"--name", fmt.Sprintf("sn-%d", i)}, s.founding...)
	return s.SN(i+1, append(args, extra...)...)
}

// lose kills pod i and deletes its volume.
func (s *statefulSet) lose(i int) {
	s.T.Helper()
	s.pods[i].Kill()
	s.wipe(i)
}

func (s *statefulSet) wipe(i int) {
	s.T.Helper()
	if err := os.RemoveAll(s.Path(fmt.Sprintf("sn%d", i+1))); err != nil {
		s.T.Fatal(err)
	}
}

// at runs swarmctl at pod i's API.
func (s *statefulSet) at(i int, args ...string) (code int, out string) {
	s.T.Helper()
	args = append([]string{"swarmctl"}, args...)
	return s.tool(append(args, "--sn", s.Addr(i+1)+":30304", "--identity", "embedded="+s.Path("ca"))...)
}

// typed types, at pod i, the command that another one says, until it is done: one that was killed is found dead within seconds.
func (s *statefulSet) typed(i int, p *e2etest.Proc, command string) {
	s.T.Helper()
	said := regexp.MustCompile(`swarmctl (` + command + `[^"\n]*)`)
	p.Sees("swarmctl " + command)
	s.until(i, strings.Fields(said.FindStringSubmatch(p.Output())[1])...)
}

func (s *statefulSet) until(i int, args ...string) {
	s.T.Helper()
	s.Until(strings.Join(args, " "), func() bool {
		code, out := s.at(i, args...)
		if code != 0 && code != 7 && !strings.Contains(out, "is alive") { // 7: no leader yet
			s.T.Fatalf("swarmctl %s: exit code %d, %s", strings.Join(args, " "), code, out)
		}
		return code == 0
	})
}

// TestLostSNIsReplaced follows docs/operations/kubernetes.md: the disks of all three SNs are lost, one after the other. Each joins with a new
// key under its name, by its usual command plus what the refusal or the page says.
func TestLostSNIsReplaced(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	const join, forget = "--join=sn-1.sn.swarm.svc.cluster.local", "swarmctl --sn sn-api:30304 forget node sn-1"
	if !strings.Contains(string(page), join) || !strings.Contains(string(page), forget) {
		t.Fatalf("the page does not say %s, or %s", join, forget)
	}
	s := newStatefulSet(t)

	// Started first: it ends with the command that lets it in.
	s.lose(1)
	refused := s.start(1)
	refused.Fails("the name sn-1 belongs to node key ", "choose another --name, or, if that node or its disk is gone for good: swarmctl forget node sn-1")
	s.typed(0, refused, "forget node")
	s.pods[1] = s.start(1)
	s.pods[1].Sees(apiMarker)

	// Banned first, whoever may have the disk.
	s.lose(2)
	s.until(0, "ban", "node", "sn-2", "--reason", "its disk was stolen")
	refused = s.start(2)
	refused.Fails("swarmctl forget node sn-2")
	s.typed(0, refused, "forget node")
	s.pods[2] = s.start(2)
	s.pods[2].Sees(apiMarker)

	// Forgotten first, and the Sentinel: it joins what it has founded.
	s.lose(0)
	s.until(1, "forget", "node", "sn-0")
	s.pods[0] = s.start(0, "--join", s.Addr(2))
	s.pods[0].Sees(apiMarker)
	s.pods[0].Stop()
	s.pods[0] = s.start(0)
	s.pods[0].Sees(apiMarker)

	// Three SNs count, none of them dead: one may be killed.
	s.pods[2].Kill()
	s.until(0, "create", "contract", "after")
	for _, i := range []int{0, 1} {
		if code, out := s.at(i, "list", "contracts"); code != 0 || !strings.Contains(out, "after") {
			t.Errorf("sn-%d: exit code %d, %s", i, code, out)
		}
	}
}

// TestLostSNIsAdmittedAnew: where operators admit SNs, they forget the lost one and admit the new key.
func TestLostSNIsAdmittedAnew(t *testing.T) {
	t.Parallel()
	s := newStatefulSet(t, "--admit", "operator")
	s.lose(1)
	refused := s.start(1)
	refused.Fails("swarmctl forget node sn-1")
	s.typed(0, refused, "forget node")
	s.pods[1] = s.start(1)
	s.typed(0, s.pods[1], "admit node")
	s.pods[1].Sees(apiMarker)
	s.pods[2].Kill()
	s.until(0, "create", "contract", "after")
}

// TestSentinelWithoutItsDiskFoundsNoSwarm: the others of its swarm look for it at its address. It says so and ends, also when they reach
// it only after it has founded another swarm.
func TestSentinelWithoutItsDiskFoundsNoSwarm(t *testing.T) {
	t.Parallel()
	s := newStatefulSet(t)
	lives := regexp.MustCompile(`founding a swarm.* swarm_id=(\w+)`).FindStringSubmatch(s.pods[0].Output())
	if lives == nil {
		t.Fatalf("no swarm ID:\n%s", s.pods[0].Output())
	}
	s.lose(0)
	s.start(0, "--found-at-once=false").Fails("swarm "+lives[1]+" lives, and its SN spiffe://swarm.learning/swarm/sn (from 127.", "start this node with --join HOST of one of ")
	s.wipe(0)
	founds := s.start(0)
	founds.Fails("swarm "+lives[1]+" lives, ", "is new and nobody has joined it", "delete the state directory "+s.Path("sn1")+" and start this node with --join HOST")
	s.wipe(0)
	s.until(1, "forget", "node", "sn-0")
	s.start(0, "--join", s.Addr(2)).Sees(apiMarker)
}
