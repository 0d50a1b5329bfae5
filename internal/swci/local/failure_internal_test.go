package local

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/cluster"
)

func TestWhyAProgramFailed(t *testing.T) {
	killed := cluster.Exit{Name: "sl-0", Code: 137, Reason: "program train.py: exit code 137: killed by signal 9 (killed)"}
	for name, tt := range map[string]struct {
		exit  cluster.Exit
		quiet bool
		last  string
		want  string
	}{
		"its last line":     {cluster.Exit{Name: "sl-0", Code: 3}, false, "one\nValueError: boom\n\n", " ended with exit code 3, its last line: ValueError: boom"},
		"not shown":         {cluster.Exit{Name: "sl-0", Code: 3}, true, "one\ntwo", " ended with exit code 3, last lines:\n    one\n    two"},
		"silent":            {cluster.Exit{Name: "sl-0", Code: 3}, false, "", " ended with exit code 3 and said nothing"},
		"what SL said":      {killed, false, "one", " ended with exit code 137: program train.py: exit code 137: killed by signal 9 (killed)"},
		"advice of a swarm": {cluster.Exit{Name: "sl-0", Code: 1, Reason: "the swarm ended this session: lost: see `swarmctl get contract status c`"}, false, "", " ended with exit code 1: the swarm ended this session: lost"},
		"cut traceback":     {cluster.Exit{Name: "sl-0", Code: 1}, false, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f", " ended with exit code 1, its last line:   File \"a.py\", line 1, in f"},
		"the later of two": {
			cluster.Exit{Name: "sl-0", Code: 1},
			true,
			`Traceback (most recent call last):
  File "/out/sl-0/load.py", line 3, in load
    open(path)
FileNotFoundError: x

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/out/sl-0/train.py", line 9, in <module>
    load()
  File "<frozen importlib._bootstrap>", line 1, in x
  File "/usr/lib/python3/dist-packages/torch/nn.py", line 7, in forward
    raise RuntimeError(
RuntimeError: first
  second
2026-01-01 00:00:00,000 : SwarmCallback : INFO : bye`,
			" ended with exit code 1: RuntimeError: first\n      second\n    at train.py, line 9: load()",
		},
		"only others' code": {
			cluster.Exit{Name: "sl-0", Code: 1},
			false,
			"Traceback (most recent call last):\n  File \"/x/swarmlearning-0a1b/base.py\", line 9, in f\n    g()\nswarmlearning.errors.DaemonGoneError: gone",
			" ended with exit code 1: DaemonGoneError: gone",
		},
	} {
		r := &run{cfg: &RunConfig{Out: "/out", Quiet: tt.quiet}}
		var last []string
		if tt.last != "" {
			last = strings.Split(tt.last, "\n")
		}
		if got := r.programFailure(tt.exit, last).text; got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tt.want)
		}
	}
}

// What a framework says of a write that fails need not have a word of the disk, as of torch.save.
func TestRoomOnTheDisk(t *testing.T) {
	const usual, full = "the logs say", "the disk of out/mine is full (12 bytes are left): make room, or give another --out"
	for free, want := range map[int64]string{-1: usual, leastRoom: usual, 12: full} {
		if got := roomHint(free, "out/mine", usual); got != want {
			t.Errorf("%d bytes: %q, want %q", free, got, want)
		}
	}
}

func TestAdviceThatNeedsASwarm(t *testing.T) {
	for said, want := range map[string]string{
		"a: use the same model, method and minPeers as the other peers, or begin anew: swarmctl reset contract c": "a: use the same model, method and minPeers as the other peers",
		"ended (see `swarmctl get contract status c`)":                                                            "ended",
		"ended: see swarmctl get contract status c":                                                               "ended",
		"open sessions: wait until they end, or end them: swarmctl reset contract c force":                        "open sessions: wait until they end",
		"run swarmctl local run again":                                                                            "run swarmctl local run again",
	} {
		if got := withoutGone(said); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}
