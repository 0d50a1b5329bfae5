package start_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/start"
)

// TestRanksAreChecked: what can't go with several ranks is refused in a line with a remedy.
func TestRanksAreChecked(t *testing.T) {
	process := func(o *start.SL) error { return o.Check(start.Process) }
	docker := func(o *start.SL) error { return o.Check(start.Docker) }
	for _, tt := range []struct {
		want   string // empty: it is good
		change func(*start.SL)
		check  func(*start.SL) error
	}{
		{"", func(*start.SL) {}, process},
		{"", func(o *start.SL) {
			o.Framework, o.Restarts, o.RankHosts, o.RankPort, o.RankImage = "PyTorch", 100, []string{"h"}, 29500, "i:1"
		}, process},
		{"say how many with --ranks", func(o *start.SL) { o.Ranks, o.Restarts = 0, 1 }, process},
		{"say how many with --ranks", func(o *start.SL) { o.Ranks, o.RankEnv = 0, []string{"A=1"} }, process},
		{"whoever starts one by hand starts its ranks too", func(o *start.SL) { o.Attach, o.Program = true, "" }, process},
		{"--framework dask: an SL starts ranks of pytorch and horovod", func(o *start.SL) { o.Framework = "dask" }, process},
		{"--ranks 1: want 2 to 1024", func(o *start.SL) { o.Ranks = 1 }, process},
		{"--ranks -1: want 2 to 1024", func(o *start.SL) { o.Ranks = -1 }, process},
		{"--ranks 1025: want 2 to 1024", func(o *start.SL) { o.Ranks = 1025 }, process},
		{"--restarts 101: want 0 to 100", func(o *start.SL) { o.Restarts = 101 }, process},
		{"allow that with --ml-network host, which all peers see, or give --ml-runtime process", func(*start.SL) {}, docker},
		{"allow that with --ml-network host", func(o *start.SL) { o.ML.Network = "lab" }, docker},
		{"", func(o *start.SL) { o.ML.Network = "host" }, docker},
		{"leave out --ml-cmd and --ml-entrypoint", func(o *start.SL) { o.ML.Network, o.ML.Cmd = "host", start.Words{"train"} }, docker},
		{"say how many with --ranks", func(o *start.SL) { o.Ranks, o.RankVolumes = 0, []string{"data:/data"} }, process},
		{"--rank-volume: the other ranks are processes", func(o *start.SL) { o.RankVolumes = []string{"data:/data"} }, process},
		{"", func(o *start.SL) {
			o.RankVolumes, o.RankImage, o.RankResources = []string{"data:/data"}, "i:1", []string{"gpu=1"}
		}, process},
		{"start it on the host itself, with --runtime process", func(*start.SL) {}, func(o *start.SL) error {
			_, err := o.Component(start.Env{Getenv: func(string) string { return "" }})
			return err
		}},
		{"--rank-env A: want K=V", func(o *start.SL) { o.RankEnv = []string{"A"} }, process},
	} {
		o := sl(program(t))
		o.Ranks, o.ML.Cmd = 2, nil
		tt.change(&o)
		if err := tt.check(&o); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}
