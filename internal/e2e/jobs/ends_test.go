package jobs_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// Programs of jobs that do not end by themselves; the second has the run ended by a file in its folder.
const (
	sleeps = "import time\ntime.sleep(3600)\n"
	stops  = "import os, pathlib\n(pathlib.Path(os.environ['SWARM_WORK_DIR']) / 'stop').touch()\n" + sleeps
)

// withRuns is the policy of a host on which runs of jobs have folders.
func (h *hosts) withRuns() string {
	h.T.Helper()
	if err := os.Mkdir(h.Path("runs"), 0o700); err != nil {
		h.T.Fatal(err)
	}
	return "folders: {runs: {path: " + h.Path("runs") + ", use: runs}}\n" + anything
}

// comesTo runs a job of a framework to one of its ends.
func (h *hosts) comesTo(end string, code int, framework, program, lines string) {
	h.T.Helper()
	name := strings.ReplaceAll(end, "_", "-")
	h.says(code, "run job -f "+h.job(name, program, "framework: "+framework+"\ncommand: p.py\ngrace: 1s\n"+lines))
	h.says(0, "get job status "+name, "end         "+end)
}

// isCutOff takes the cable out of a host that has a member of a job which somebody follows. Nothing tells the other members, which wait; the swarm does
// when the lease is over.
func (h *hosts) isCutOff(i int, name string, follow *e2etest.Proc) {
	h.T.Helper()
	at := time.Now()
	h.part(i, true)
	h.looks("end of job "+name, func() bool { return ended(follow) })
	h.T.Logf("job %s ended %v after its host was lost", name, time.Since(at).Round(time.Second))
	h.part(i, false)
	if code := follow.Exits(); code != 1 {
		h.T.Errorf("exit code %d of run job -f, want 1\n%s", code, follow.Output())
	}
	h.says(0, "get job status "+name, "end         host_lost", fmt.Sprintf(" on swop-%d was lost: it is not heard any more", i))
}
