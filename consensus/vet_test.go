package consensus_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestTheLeaderVetsWhatIsProposed: whichever server is asked, the leader's judgement counts, and what it makes of a command.
func TestTheLeaderVetsWhatIsProposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		var mu sync.Mutex
		judges := map[string]bool{}
		s.vet = func(on string, c state.Command) (state.Command, error) {
			switch c := c.(type) {
			case state.BanNode:
				mu.Lock()
				defer mu.Unlock()
				judges[on] = true
				if c.Reason == "mine" {
					c.PeerID, c.Reason = "idmeant", "vetted"
					return c, nil
				}
				return nil, &state.Error{Reason: state.ReasonBadCommand, Message: "not signed"}
			case state.UnbanNode:
				mu.Lock()
				defer mu.Unlock()
				judges[on] = true
				return nil, &state.Error{Reason: state.ReasonBadCommand, Message: "not signed"}
			default:
				return c, nil
			}
		}
		all := []string{"a", "b", "c"}
		s.form(all...)
		leader := s.leader(all...).name
		for _, via := range all {
			forged := state.BanNode{PeerID: "idsl", By: "x", AtMS: 1}
			if _, err := s.servers[via].Propose(s.within(5*time.Second), state.UnbanNode{PeerID: "idsl", AtMS: 1}); state.ReasonOf(err) != state.ReasonBadCommand {
				t.Errorf("proposed at %s: %v", via, err)
			}
			if _, err := s.servers[via].Propose(s.within(5*time.Second), forged); state.ReasonOf(err) != state.ReasonBadCommand {
				t.Errorf("banned at %s: %v", via, err)
			}
			if _, err := s.servers[via].Propose(s.within(5*time.Second), state.BanNode{PeerID: "idsl", Reason: "mine", By: "x", AtMS: 1}); err != nil {
				t.Errorf("banned at %s: %v", via, err)
			}
		}
		v := s.servers[leader].View()
		if v.Banned("idsl") != nil || v.Banned("idmeant") == nil || v.Banned("idmeant").Reason != "vetted" {
			t.Errorf("bans: %v", v.BannedPeers())
		}
		if len(judges) != 1 || !judges[leader] {
			t.Errorf("judged by %v, led by %s", judges, leader)
		}
	})
}
