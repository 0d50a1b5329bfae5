package consent

import (
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// TestAMemberOfAJobIsOnePeer, also on a host that does not say for how many it counts elsewhere.
func TestAMemberOfAJobIsOnePeer(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		peers uint32
		good  bool
	}{{task.RunJob, 1, true}, {task.RunJob, 2, false}, {task.RunSwarm, 2, true}} {
		v := Verifier{}
		err := v.holdPeers(&task.Hosted{Members: []task.HostedMember{{Peers: tt.peers}}}, &task.Task{Type: tt.kind})
		if (err == nil) != tt.good {
			t.Errorf("%s for %d peers: %v", tt.kind, tt.peers, err)
		}
	}
}
