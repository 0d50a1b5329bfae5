package daemon

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// TestRanksOfAnSL: what is said of the other ranks reaches them beside both runtimes of rank 0, and what can't be is refused before anything is started.
func TestRanksOfAnSL(t *testing.T) {
	dir := hostDirs(t)
	const place = "start it on the host itself, with --runtime process"
	const inContainers = " --ml-runtime docker --ml-network host --rank-image i:1"
	for _, tt := range []struct {
		more, contained string
		err             string // empty: it is good
	}{
		{more: " --ml-runtime process --rank-image i:1 --rank-volume data:/data --rank-volume out:/out:rw --rank-resources cpu=2,gpu=1"},
		{more: inContainers + " --rank-volume data:/data --rank-volume out:/out:rw --rank-resources cpu=2 --rank-resources gpu=1"},
		{more: inContainers + " --rank-volume data", err: "--rank-volume: "},
		{more: inContainers + " --rank-resources cpus=2", err: "--rank-resources: "},
		{more: inContainers, contained: "1", err: place},
		{more: " --ml-runtime process", contained: "1", err: place},
		{more: " --runtime docker", err: place},
		{more: " --ml-runtime docker", err: "--ml-network host"},
	} {
		e := environment(map[string]string{"HOME": dir, "SWARM_IN_CONTAINER": tt.contained})
		args := strings.Fields("run-sl --runtime process --host-ip h --sn-ip s --socket-path agent.sock --name sl-1 --sl-platform PYT --model-dir model --model-program train.py --ranks 3" + tt.more)
		err := parse(t, e, args, func(c *cli.Context) error {
			cfg, err := slConfig(c, e)
			if err != nil {
				return err
			}
			r, want := cfg.Ranks, []jobfile.Volume{{Name: "data", Target: "/data"}, {Name: "out", Target: "/out", Write: true}}
			if r.Ranks != 3 || r.File != "train.py" || len(r.Source) != 1 || r.Image != "i:1" || len(r.Volumes) != 2 || r.Volumes[0] != want[0] || r.Volumes[1] != want[1] || strings.Join(r.Resources, ",") != "cpu=2,gpu=1" {
				t.Errorf("%s: %+v", tt.more, r.Program)
			}
			return nil
		})
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.more, err, tt.err)
		}
	}
}
