package links_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const apiMarker = "swarm.blCnt : INFO : Starting SWARM-API-SERVER on port: 30304"

func TestMain(m *testing.M) { os.Exit(e2etest.Main(m)) }

// swarm is a swarm on the embedded authority, each node in a namespace.
type swarm struct {
	*e2etest.Swarm
	sns map[int]*e2etest.Proc
	sls map[int]*e2etest.Proc
}

// newSwarm starts the authority and SNs 1 to n, and waits until they serve.
func newSwarm(t *testing.T, n int) *swarm {
	t.Helper()
	e2etest.NeedPython(t)
	t.Parallel()
	w := &swarm{sns: map[int]*e2etest.Proc{}, sls: map[int]*e2etest.Proc{}}
	w.Swarm = e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + w.Path("ca")} })
	w.InNamespaces()
	e2etest.Start(t, "authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca"))
	for i := 1; i <= n; i++ {
		w.sns[i] = w.SN(i)
	}
	for _, p := range w.sns {
		p.Sees(apiMarker)
	}
	return w
}

// train starts SL i at SN (i-1)%n+1 of n; extra as for SL.
func (w *swarm) train(i int, extra ...string) *e2etest.Proc {
	w.T.Helper()
	sn := (i-1)%len(w.sns) + 1
	w.sls[i] = w.SL(i, append([]string{"--sn-ip=" + w.Addr(sn)}, extra...)...)
	return w.sls[i]
}

// all starts SLs 1 to n, which wait for each other.
func (w *swarm) all(n int, extra ...string) {
	w.T.Helper()
	for i := 1; i <= n; i++ {
		w.train(i, append([]string{fmt.Sprintf("--expected-peers=%d", n)}, extra...)...)
	}
}

// ends waits until all programs have come to their end, and wants one model.
func (w *swarm) ends() e2etest.Event {
	w.T.Helper()
	var who []int
	for i, p := range w.sls {
		who = append(who, i)
		if code := p.Exits(); code != 0 {
			w.T.Errorf("%s: exit code %d, want 0", p.Name, code)
		}
	}
	if w.T.Failed() {
		w.T.FailNow()
	}
	return w.Agree(who...)
}

// handed is one model that a program was given, as its node's log tells.
type handed struct {
	round       int
	contributed bool
}

var handedLine = regexp.MustCompile(`model handed to the program .*\bround=(\d+) .*\bcontributed=(true|false)`)

func models(p *e2etest.Proc) (out []handed) {
	for _, m := range handedLine.FindAllStringSubmatch(p.Output(), -1) {
		round, _ := strconv.Atoi(m[1])
		out = append(out, handed{round, m[2] == "true"})
	}
	return out
}

// reaches waits until a program was given the model of a round, or of a later one.
func (w *swarm) reaches(p *e2etest.Proc, round int) {
	w.T.Helper()
	w.Until(fmt.Sprintf("model of round %d at %s", round, p.Name), func() bool {
		m := models(p)
		return len(m) > 0 && m[len(m)-1].round >= round
	})
}

// last is the newest round of which a program has the model.
func last(p *e2etest.Proc) int {
	if m := models(p); len(m) > 0 {
		return m[len(m)-1].round
	}
	return 0
}

// merging waits until SL i takes part in an exchange.
func (w *swarm) merging(i int) {
	w.T.Helper()
	w.Until(fmt.Sprintf("exchange at sl-%d", i), func() bool {
		s := w.Status(i)
		return s != nil && s["phase"] == "merging"
	})
}

// leader is the SN that says that it leads, 0 while none does.
func (w *swarm) leader() int {
	for i, p := range w.sns {
		lines := strings.Split(p.Output(), "\n")
		for k := len(lines) - 1; k >= 0; k-- {
			if strings.Contains(lines[k], "raft leadership changed") {
				if strings.Contains(lines[k], "leading=true") {
					return i
				}
				break
			}
		}
	}
	return 0
}
