package docker_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestRunSwarmOnTwoHosts: files in the original's style, with the oddities that its users write, start two SLs on each of two hosts, which have
// an engine each and nothing in common but a network; they train to one model, and nothing is left.
func TestRunSwarmOnTwoHosts(t *testing.T) {
	h := newHosts(t, 1, 2)
	h.CopyProgram(h.Path("model"))
	first, second := h.seesReady(1), h.seesReady(2)
	for _, name := range []string{"taskdefs/user_env_task.yaml", "taskdefs/swarm_task.yaml"} {
		h.writes(name, "<CURRENT-PATH>", h.Dir)
	}
	out := h.swci(h.writes("swci-init", "<CURRENT-PATH>", h.Dir, "<SN-IP>", h.Addr(1)))
	for _, want := range []string{`TASK_STATE +: COMPLETE`, `COMPLETED_PEERS +: 4`, `Envvars stands in line 10 too`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("SWCI does not say %q:\n%s", want, out)
		}
	}
	for i := 1; i <= 4; i++ {
		if err := os.Rename(h.Path(fmt.Sprintf("sl%d", i), "app-data", "metrics"), h.Metrics(i)); err != nil {
			t.Fatal(err)
		}
	}
	h.Agree(1, 2, 3, 4)
	h.empty(1)
	h.empty(2)
	for _, p := range []*e2etest.Proc{first, second, h.sns[0]} {
		p.Stop()
	}
}
