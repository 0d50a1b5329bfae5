package e2e_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestBanCutsOffOneOfASharedIdentity: all SLs have the SPIFFE ID /swarm/sl, and still one of them can be shut out.
func TestBanCutsOffOneOfASharedIdentity(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.up()
	sls := w.trains(3, "MIN_PEERS=2", "BATCHES=8", "SIZE=8000000") // 32 MB: an exchange takes its time
	sls[2].Sees("round=1 ")
	w.Until("exchange of a later round at sl-3", func() bool {
		s := w.Status(3)
		return s != nil && s["phase"] == "merging"
	})
	swarmctl := func(want string, args ...string) {
		t.Helper()
		code, out := w.swarmctl(args...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	const name = "sl-3"
	swarmctl("node "+name+" is banned", "ban", "node", name, "--reason", "laptop was stolen")
	if code := sls[2].Exits(); code == 0 || !strings.Contains(sls[2].Output(), "is banned: laptop was stolen") {
		t.Errorf("the banned SL ends with %d and does not say why", code)
	}
	swarmctl(" banned ", "list", "nodes")
	finish(t, sls[0], sls[1])
	w.Agree(1, 2)
	again := w.SL(3)
	again.Fails("is banned: laptop was stolen")
	swarmctl("is no longer banned", "unban", "node", name)
}
