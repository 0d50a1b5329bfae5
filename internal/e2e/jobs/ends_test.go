package jobs_test

import (
	"os"
	"strings"
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
