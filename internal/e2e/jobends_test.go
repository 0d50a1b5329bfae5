package e2e_test

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// endsInTime has jobs end for what ends them beside their programs, a few at a time, and holds that status, exit code, audit and ledger say the same. Other
// tests have the other ends; those of a host that is lost, and of one that refuses, too.
func (w *swarm) endsInTime() {
	w.T.Helper()
	const sleeps = "import time\ntime.sleep(3600)\n"
	type job struct {
		name, lines, program string
		code                 int
		verdict, end, why    string
	}
	all := []job{
		{"lives", "ends: {ttl: 1s}\n", sleeps, 0, "succeeded", "ttl", "job lives succeeded"},
		{"main", "ready: {port: 1}\nready_timeout: 2s\n", sleeps, 8, "failed", "main_timeout", "not ready after 2s: member 0 (node) on swop-2"},
		{"side", "ready_timeout: 6s\ngroups: [{name: first}, {name: second, ready: {port: 1}}]\n", sleeps, 8, "failed", "ready_timeout", "not ready after 6s: member 1 (second) on swop-3 is started"},
		{"slow", "timeout: 4s\n", sleeps, 8, "failed", "max_runtime", "timed out after 4s"},
	}
	w.says(1, "run job -f "+w.written("loads", "env: {LD_PRELOAD: /x}\n", ""), "job loads, group node: its env sets \"LD_PRELOAD\", which could have a process run other code")
	for some := range 2 {
		var follow []*e2etest.Proc
		part := all[3*some : min(3*some+3, len(all))]
		for i, j := range part {
			file := w.written(j.name, fmt.Sprintf("grace: 1s\nhosts: [swop-%d]\n%s", i+1, j.lines), j.program)
			follow = append(follow, e2etest.Start(w.T, "run job "+j.name, w.Dir, nil, "swarmctl", "run", "job", "-f", file, "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca")))
		}
		for i, j := range part {
			if code := follow[i].Exits(); code != j.code || !strings.Contains(follow[i].Output(), j.why) {
				w.T.Errorf("run job %s: exit code %d, want %d and %q:\n%s", j.name, code, j.code, j.why, follow[i].Output())
			}
			w.says(0, "get job status "+j.name, "end         "+j.end)
		}
	}
	all = append(all, job{name: "primes", verdict: "succeeded", end: "entry_done"}, job{name: "fails", verdict: "failed", end: "member_failed"},
		job{name: "long", verdict: "cancelled", end: "cancelled"}, job{name: "late", verdict: "failed", end: "no_capacity"})
	audit := w.says(0, "audit")
	for _, j := range all {
		if !says(audit, j.verdict, j.name+".", j.end) {
			w.T.Errorf("the audit does not say that %s %s by %s", j.name, j.verdict, j.end)
		}
	}
	file, ca := w.Path("ledger"), w.Path("founding.pem")
	w.says(0, "get ledger --out "+file)
	w.says(0, "get bundle --out "+ca)
	if code, out := w.tool("swarmctl", "verify", "ledger", file, "--bundle", ca); code != 0 {
		w.T.Errorf("verify ledger: exit code %d\n%s", code, out)
	}
}

// says reports whether a text has a line with all of some words.
func says(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		n := 0
		for _, word := range words {
			if strings.Contains(line, word) {
				n++
			}
		}
		if n == len(words) {
			return true
		}
	}
	return false
}
