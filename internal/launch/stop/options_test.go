package stop_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/stop"
)

func TestSelectors(t *testing.T) {
	// What may run on a host: role and, after a slash, platform.
	things := []string{"swci", "swop", "sl/PYT", "sl/TF", "sl", "ml/PYT", "ml/TF", "ml", "probe/PYT", "sn", "spire-server", "newer", ""}
	tests := []struct {
		args string
		want string
	}{
		{"", "swci swop sl/PYT sl/TF sl ml/PYT ml/TF ml probe/PYT sn spire-server newer"},
		{"--all", "swci swop sl/PYT sl/TF sl ml/PYT ml/TF ml probe/PYT sn spire-server newer"},
		{"--keep", "swci swop sl/PYT sl/TF sl ml/PYT ml/TF ml probe/PYT sn spire-server newer"},
		{"--all --sn", "swci swop sl/PYT sl/TF sl ml/PYT ml/TF ml probe/PYT sn spire-server newer"},
		{"--apls", ""},
		{"--spire-server", "spire-server"},
		{"--sl", "sl/PYT sl/TF sl ml/PYT ml/TF ml probe/PYT"},
		{"--sl-pyt", "sl/PYT ml/PYT probe/PYT"},
		{"--sl-tf", "sl/TF ml/TF"},
		{"--sl-tf --sl-pyt", "sl/PYT sl/TF ml/PYT ml/TF probe/PYT"},
		{"--sn", "sn"},
		{"--swop", "swop"},
		{"--swci --keep", "swci"},
		{"--apls --sn --sn", "sn"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			o, err := stop.Parse(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, thing := range things {
				if role, platform, _ := strings.Cut(thing, "/"); o.Wants(role, platform) {
					got = append(got, thing)
				}
			}
			if d := cmp.Diff(strings.Fields(tt.want), got); d != "" {
				t.Error(d)
			}
			again, err := stop.Parse(o.Args())
			if err != nil || again != o {
				t.Errorf("Args %q mean %+v, not %+v (%v)", o.Args(), again, o, err)
			}
		})
	}
	if o, _ := stop.Parse([]string{"--sl-pyt"}); !o.Wants("sl", "pyt") {
		t.Error("the platform's case matters")
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, flag := range []string{"--bogus", "-a", "--sl=1", "sn", "--", "", "--SL"} {
		_, err := stop.Parse([]string{"--sn", flag})
		if err == nil || !strings.HasPrefix(err.Error(), "Invalid flag: "+flag+"\nusage: ") {
			t.Errorf("%q: %v", flag, err)
		}
	}
	for _, flag := range []string{"--help", "-h"} {
		if o, err := stop.Parse([]string{flag}); err != nil || !o.Help {
			t.Errorf("%s: %+v, %v", flag, o, err)
		}
	}
}

func TestUsageNamesEveryOption(t *testing.T) {
	o := stop.Options{All: true, APLS: true, SpireServer: true, SL: true, SLPYT: true, SLTF: true, SN: true, SWOP: true, SWCI: true, Keep: true}
	for _, flag := range append(o.Args(), "--sudo", "--help") {
		if !strings.Contains(stop.Usage, "\n  "+flag+" ") {
			t.Errorf("the usage says nothing of %s", flag)
		}
	}
}

func TestRegistryGoesAlong(t *testing.T) {
	dir := t.TempDir()
	if got := stop.Registry(func(key string) string { return map[string]string{"SWARM_RUN_DIR": dir}[key] }); got != "SWARM_RUN_DIR="+dir {
		t.Errorf("got %q", got)
	}
}
