package e2e_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

const (
	apiMarker = "swarm.blCnt : INFO : Starting SWARM-API-SERVER on port: 30304"
	endMarker = "SwarmCallback : INFO : All peers and Swarm training rounds finished. Final Swarm model was loaded."
)

// Whoever comes first waits for the others, says for what, and ends without a trace.
func TestFormationInAnyOrder(t *testing.T) {
	e2etest.NeedPython(t)
	backwards := []string{"sl3", "sl2", "sl1", "sn3", "sn2", "ca", "sn1"}
	random := append([]string(nil), backwards...)
	rand.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
	for name, order := range map[string][]string{"backwards": backwards, "random": random} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("order: %s", strings.Join(order, " "))
			form(t, order)
		})
	}
}

func form(t *testing.T, order []string) {
	w := newSwarm(t)
	procs := map[string]*e2etest.Proc{}
	for _, name := range order {
		i := int(name[len(name)-1] - '0')
		switch name[:2] {
		case "ca":
			procs[name] = w.authority()
		case "sn":
			procs[name] = w.SN(i)
		case "sl":
			procs[name] = w.SL(i, "MIN_PEERS=3")
		}
		// The next one starts when this one is seen to live or to wait, not merely when it was forked.
		procs[name].Sees(" : ")
	}
	for _, sn := range []string{"sn1", "sn2", "sn3"} {
		procs[sn].Sees(apiMarker)
	}
	for _, sl := range []string{"sl1", "sl2", "sl3"} {
		procs[sl].Sees(endMarker)
		if code := procs[sl].Exits(); code != 0 {
			t.Errorf("%s: exit code %d, want 0", sl, code)
		}
	}
	if e := w.Agree(1, 2, 3); e.Rounds != 5 {
		t.Errorf("got %d rounds, want 5: the first model, three merges, the final one", e.Rounds)
	}
	for _, name := range []string{"sn2", "sn1", "sn3", "ca"} {
		procs[name].Stop()
	}
	w.LeavesNothing()
	for name, p := range procs {
		quiet(t, name, p.Output())
	}
}

// quiet wants no line over and over, and none of the words with which Go talks to programmers.
func quiet(t *testing.T, name, out string) {
	t.Helper()
	seen := map[string]int{}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "program | ") {
			continue
		}
		for _, ugly := range []string{"<nil>", "goroutine ", "panic:", "context canceled", " : ERROR : "} {
			if strings.Contains(line, ugly) {
				t.Errorf("%s says %q", name, line)
			}
		}
		_, text, _ := strings.Cut(line, " : ")
		if seen[text]++; seen[text] == 6 {
			t.Errorf("%s repeats itself: %s", name, text)
		}
	}
}
