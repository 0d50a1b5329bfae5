package daemon

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/internal/epoch"
)

// TestSuperseded: a backup is not restored beside SNs that know more.
func TestSuperseded(t *testing.T) {
	id, digest := strings.Repeat("ab", 16), strings.Repeat("0", 24)
	second := epoch.Pin{SwarmID: id, Epoch: 2, Digest: digest}
	sns := []recovery.Voter{{Name: "sn-0"}, {Name: "sn-1"}, {Name: "sn-2"}}
	for _, tt := range []struct {
		name   string
		of     epoch.Pin
		swarms []string
		want   string // of the refusal; empty: none
	}{
		{"none answers", epoch.First(id), []string{"", "", ""}, ""},
		{"most answer", epoch.First(id), []string{id, "", id}, "the swarm lives: sn-0, sn-2, 2 of the 3 SNs that the backup names, can be reached: start this SN"},
		{"one answers", epoch.First(id), []string{"", id, ""}, "sn-1 can be reached and may hold more than the backup: swarmd recover-sn there loses less"},
		{"another swarm at their addresses", epoch.First(id), []string{strings.Repeat("cd", 16), strings.Repeat("cd", 16), ""}, ""},
		{"one that was recovered since", epoch.First(id), []string{"", "", second.String()}, "the swarm lives: SN sn-2 is of epoch 2 of it"},
		{"one that was left behind before", second, []string{id, id, ""}, ""},
	} {
		var all []reached
		for i, v := range sns {
			all = append(all, reached{Voter: v, swarm: tt.swarms[i]})
		}
		err := superseded(tt.of, all)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
