package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// registered is what an SL says once an SN has taken it.
const registered = "registered with the swarm"

// TestSLWithoutItsSN: the only SN that an SL was given is dead when it starts again, then one of another swarm beside. It goes on with
// those that it has learned, as swarmctl does with those that most say.
func TestSLWithoutItsSN(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	_, sns := w.up()
	sl := w.attach(1)
	sl.Sees(registered)
	sl.Stop()
	sns[0].Kill()

	sl = w.attach(1)
	sl.Sees(registered)
	sl.Stop()

	// A Sentinel without its disk, at an address that the others do not know. It ends, unless it founds without a look for another swarm.
	stranger := func(more ...string) *e2etest.Proc {
		return e2etest.Start(t, "stranger", w.Dir, nil, append([]string{
			"swarmd", "run-sn", "--name", "sn-9", "--host-ip", w.Addr(9), "--sentinel-ip", w.Addr(9),
			"--state-dir", w.Path("sn9"), "--identity", "embedded=" + w.Path("ca"),
		}, more...)...)
	}
	founder := stranger()
	founder.Sees(apiMarker)
	sl = w.attach(1, "--sn-ip", w.Addr(9))
	sl.Sees("an SN is of another swarm than this node", registered)
	founder.Fails("belongs to swarm", "takes this node for an SN of it", "nobody has joined it: delete the state directory")
	sl.Stop()
	stranger("--found-at-once").Sees(apiMarker)

	list := func(sns ...int) (code int, out string) {
		args := []string{"swarmctl", "list", "nodes", "--identity", "embedded=" + w.Path("ca")}
		for _, i := range sns {
			args = append(args, "--sn", w.Addr(i))
		}
		return w.tool(args...)
	}
	differ := "swarmctl: the SNs are of different swarms: " + w.Addr(9) + ":30304 is of swarm "
	if code, out := list(9, 2, 3); code != 0 || !strings.Contains(out, differ) || !strings.Contains(out, "sn-3") || strings.Contains(out, "sn-9") {
		t.Errorf("most agree: exit code %d\n%s", code, out)
	}
	if code, out := list(9, 2); code != 6 || !strings.Contains(out, differ) || strings.Contains(out, "NAME") {
		t.Errorf("one against one: exit code %d\n%s", code, out)
	}

	// A list that is damaged is said, and no obstacle.
	if err := os.WriteFile(w.Path("sl1", "sns.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	sl = w.attach(1, "--sn-ip", w.Addr(2)+":30304")
	sl.Sees("sns.json is damaged", registered)
	sl.Stop()
	// Without it there is nobody of its own swarm: it waits, and says for whom.
	if err := os.Remove(w.Path("sl1", "sns.json")); err != nil {
		t.Fatal(err)
	}
	sl = w.attach(1, "--sn-ip", w.Addr(9))
	sl.Sees("waiting for the swarm", "no SN of swarm ", "SN "+w.Addr(9)+":30304 belongs to swarm ", "cannot reach SN "+w.Addr(1))
	sl.Stop()
}
