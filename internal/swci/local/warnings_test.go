package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/local"
)

// warn has the swarm of a run warn.
func (f *fixture) warn(warnings ...*swarmv1.Warning) {
	f.host.Connect = func(context.Context, []string, string) (local.API, func(), error) {
		return fakeAPI{warnings}, func() {}, nil
	}
}

func TestRunEndsWithWarnings(t *testing.T) {
	empty := &swarmv1.Warning{Reason: "NO_DATA", Node: "sl-1", Text: "sl-1 has trained no batch"}
	advice := &swarmv1.Warning{Reason: "ANY", Text: "this could be better", Advice: true}
	for _, tt := range []struct {
		name   string
		warns  []*swarmv1.Warning
		edit   func(*local.RunConfig)
		code   int
		reason []string
		text   string
	}{
		{"nothing is wrong", nil, func(*local.RunConfig) {}, exit.OK, nil, ""},
		{"advice", []*swarmv1.Warning{advice}, func(c *local.RunConfig) { c.Strict = true }, exit.OK, []string{"ANY"}, ""},
		{"a warning", []*swarmv1.Warning{empty, advice}, func(*local.RunConfig) {}, exit.Warned, []string{"NO_DATA", "ANY"}, "trained, with 1 warning:\n    sl-1 has trained no batch"},
		{"a warning, strictly", []*swarmv1.Warning{empty}, func(c *local.RunConfig) { c.Strict = true }, exit.Failed, []string{"NO_DATA"}, "trained, with 1 warning:\n    sl-1 has trained no batch"},
		{"one data folder, and a warning", []*swarmv1.Warning{empty}, func(c *local.RunConfig) {
			c.DataDir = filepath.Join(filepath.Dir(c.DataDir), "0")
		}, exit.Warned, []string{"SAME_DATA", "NO_DATA"}, "trained, with 2 warnings:\n    all 2 peers have the same data, "},
		{"one data folder, divided by the program", nil, func(c *local.RunConfig) {
			c.DataDir, c.Env = filepath.Join(filepath.Dir(c.DataDir), "0"), []string{"PART={peer}"}
		}, exit.OK, nil, ""},
		{"one peer", nil, func(c *local.RunConfig) {
			c.DataDir, c.Peers, c.Env = filepath.Join(filepath.Dir(c.DataDir), "0"), 1, []string{"MIN_PEERS=2"}
		}, exit.OK, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := setup(t, goodProgram)
			f.warn(tt.warns...)
			tt.edit(&f.cfg)
			err := local.Run(t.Context(), f.cfg, f.host)
			if exit.Code(err) != tt.code || err != nil && !strings.HasPrefix(err.Error(), tt.text) {
				t.Errorf("got %v (code %d), want %q (code %d)", err, exit.Code(err), tt.text, tt.code)
			}
			var got []string
			for _, w := range f.summary(t).Warnings {
				got = append(got, w.Reason)
			}
			if diff := cmp.Diff(tt.reason, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			if said := strings.Contains(f.stdout.String(), "advice  this could be better"); said != (len(tt.warns) > 0 && tt.warns[len(tt.warns)-1] == advice) {
				t.Errorf("stdout:\n%s", f.stdout)
			}
		})
	}
}

// TestRunShowsWarningsOnce: each program's log has all of them, the terminal shows those about the peer itself.
func TestRunShowsWarningsOnce(t *testing.T) {
	f := setup(t, goodProgram+"for peer in sl-0 sl-1; do echo \"now : SwarmCallback : WARNING : $peer has trained no batch\"; done\n")
	if err := local.Run(t.Context(), f.cfg, f.host); err != nil {
		t.Fatal(err)
	}
	for _, peer := range []string{"sl-0", "sl-1"} {
		said := ": WARNING : " + peer + " has trained no batch"
		if n := strings.Count(f.stderr.String(), said); n != 1 || !strings.Contains(f.stderr.String(), peer+" | now : SwarmCallback "+said) {
			t.Errorf("%q is shown %d times, want once of its own peer:\n%s", said, n, f.stderr)
		}
		log, err := os.ReadFile(filepath.Join(f.cfg.Out, peer, "program.log"))
		if err != nil || strings.Count(string(log), "has trained no batch") != 2 {
			t.Errorf("log of %s: %s, %v", peer, log, err)
		}
	}
}

// TestRunEndsAtOnceWithoutEnoughPeers: nothing is waited for that can never come.
func TestRunEndsAtOnceWithoutEnoughPeers(t *testing.T) {
	f := setup(t, "sleep 60 & sleep 60")
	f.warn(&swarmv1.Warning{Reason: "MIN_PEERS", Text: "minPeers is 5, but only 2 peers are expected"})
	err := local.Run(t.Context(), f.cfg, f.host)
	if exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "minPeers is 5, but only 2 peers are expected") || !strings.Contains(exit.Hint(err), "MIN_PEERS") {
		t.Errorf("got %v (code %d), hint %q", err, exit.Code(err), exit.Hint(err))
	}
	f.nothingLeft(t)
}
