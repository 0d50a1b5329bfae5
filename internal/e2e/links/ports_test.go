package links_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// large has streams carry so much that each has a connection of its own: over a MiB of each shard.
const large = "SIZE=2000000"

// shut has a firewall before SL i drop what others would open.
func (w *swarm) shut(sls ...int) {
	w.T.Helper()
	for _, i := range sls {
		if err := w.Host(10 + i).Shut(); err != nil {
			w.T.Fatal(err)
		}
	}
}

// swarmctl runs a command at the host of SN 1.
func (w *swarm) swarmctl(args ...string) string {
	w.T.Helper()
	argv := append([]string{filepath.Join(e2etest.BinDir, "swarmctl"), "--identity=embedded=" + w.Path("ca"), "--sn=" + w.Addr(1)}, args...)
	argv = w.Host(1).Command(argv...)
	out, _ := exec.CommandContext(w.T.Context(), argv[0], argv[1:]...).CombinedOutput()
	return string(out)
}

// SL 2 can't be dialled: the others take what it opens, for merges with connections of their own and for the model that a late one fetches,
// and no attempt fails.
func TestOnePortShut(t *testing.T) {
	w := newSwarm(t, 1)
	w.shut(2)
	w.all(3, "MIN_PEERS=3", "BATCHES=6", large)
	for i := 1; i <= 3; i++ {
		w.reaches(w.sls[i], 2)
	}
	w.shows("list", "nodes", "3/3")
	w.shows("get", "health", "connections: 6 of 6 that nodes need stand")
	w.ends()
	for i, p := range w.sls {
		if out := p.Output(); strings.Contains(out, failedAttempt) {
			t.Errorf("an attempt failed at sl-%d:\n%s", i, e2etest.Last(out, 20))
		}
	}
}

const failedAttempt = "attempt of a round failed"

// Neither of SL 1 and 2 can be dialled, SL 3 can: those two can't merge with each other, but each can with SL 3. The port is named, and once
// it is opened all take part.
func TestTwoPortsShut(t *testing.T) { twoPortsShut(t) }

// The same where the rules require one of the two, and the other came first.
func TestTwoPortsShutAndOneRequiredForMinutes(t *testing.T) {
	twoPortsShut(t, "--require", "sl-1")
}

func twoPortsShut(t *testing.T, rules ...string) {
	w := newSwarm(t, 1)
	if len(rules) > 0 {
		if out := w.swarmctl(append([]string{"create", "contract", "e2e", "--min-peers=2"}, rules...)...); !strings.Contains(out, "e2e") {
			t.Fatal(out)
		}
	}
	w.shut(1, 2)
	w.all(3, "MIN_PEERS=2", "BATCHES=200", "BATCH_SECONDS=0.1", large)
	w.reaches(w.sls[3], 1)
	for i, p := range w.sls {
		if out := p.Output(); strings.Contains(out, "round=1 attempt=2") {
			t.Errorf("sl-%d needed a third attempt:\n%s", i, e2etest.Last(out, 20))
		}
	}
	in, left := 1, 2 // in the first round; they take turns, but for whom the rules require
	w.Until("a contribution of sl-1 or sl-2", func() bool {
		if contributes(w.sls[2]) {
			in, left = 2, 1
		}
		return contributes(w.sls[in])
	})
	if len(rules) > 0 && in != 1 {
		t.Errorf("sl-%d takes part, and not sl-1, which the rules require", in)
	}
	out := w.swarmctl("explain", "contract", "e2e")
	for _, want := range []string{
		"sl-1 cannot open " + w.Addr(12) + ":30305 (TCP), which does not answer: open it inbound at sl-2; check: swarmctl identity check " + w.Addr(12) + ":30305",
		"sl-2 cannot open " + w.Addr(11) + ":30305 (TCP), which does not answer: open it inbound at sl-1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("explain does not say %q:\n%s", want, out)
		}
	}
	w.shows("list", "nodes", "2/3 (not sl-2)", "2/3 (not sl-1)", "3/3")
	w.shows("get", "health", "  NO  ", "none: sl-1 and sl-2\n", "  sl-1 cannot open "+w.Addr(12)+":30305 (TCP), which does not answer, for ",
		"  sl-2 cannot open "+w.Addr(11)+":30305 (TCP), which does not answer, for ",
		"or the other way to "+w.Addr(11)+":30305; one of the two is enough; check on the host of sl-1: swarmctl identity check "+w.Addr(12)+":30305\n")
	if err := w.Host(10 + left).Open(); err != nil {
		t.Fatal(err)
	}
	w.Until("a round with both, once the port of one is open", func() bool { return together(w.sls[in], w.sls[left]) })
	if out := w.swarmctl("explain", "contract", "e2e"); strings.Contains(out, "cannot open") {
		t.Errorf("once there is a way explain says:\n%s", out)
	}
	w.shows("list", "nodes", "3/3")
	if out := w.swarmctl("get", "health"); strings.Contains(out, "none:") || strings.Contains(out, "  NO") {
		t.Errorf("once there is a way health says:\n%s", out)
	}
	for i := range w.sls {
		w.sls[i].Kill()
	}
}

// together reports whether two have contributed to one round.
func together(a, b *e2etest.Proc) bool {
	for _, m := range models(a) {
		if m.contributed && slices.Contains(models(b), m) {
			return true
		}
	}
	return false
}

// shows waits until a command of two words shows what is wanted.
func (w *swarm) shows(verb, noun string, want ...string) {
	w.T.Helper()
	out := ""
	w.Until(verb+" "+noun+" shows "+strings.Join(want, ", "), func() bool {
		out = w.swarmctl(verb, noun)
		return !slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(out, s) })
	})
	w.T.Logf("%s %s:\n%s", verb, noun, out)
}

// contributes reports whether a program has contributed to the newest model that it was given.
func contributes(p *e2etest.Proc) bool {
	m := models(p)
	return len(m) > 0 && m[len(m)-1].contributed
}
