package swci

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
)

// TestStuckContract: what a leader waits for says whether that should last, whatever words of others are in it; status and explanation agree.
func TestStuckContract(t *testing.T) {
	at := time.Unix(1000, 0)
	const words = "waiting for x (still training) since 1"
	session := func(state string, live bool) *swarmv1.Session {
		return &swarmv1.Session{Node: "sl-2", State: state, Live: live}
	}
	for name, c := range map[string]struct {
		waits   planner.Waiting
		session *swarmv1.Session
		want    bool
	}{
		"nothing is waited for": {planner.Waiting{}, session("open", false), false},
		"programs train":        {planner.Waiting{Kind: planner.WaitTraining, For: []string{"sl-0", "sl-2"}, Since: at}, session("open", true), false},
		"one sits out":          {planner.Waiting{Kind: planner.WaitTraining, For: []string{"sl-0"}, Since: at, Sitting: []string{"sl-2"}, Until: at}, session("open", true), false},
		"a node is dead":        {planner.Waiting{Kind: planner.WaitTraining, For: []string{"sl-0"}, Since: at, Lost: []string{"sl-2"}}, session("open", false), true},
		"its session has ended": {planner.Waiting{Kind: planner.WaitTraining, For: []string{"sl-0"}, Since: at}, session("ended", false), false},
		"too few":               {planner.Waiting{Kind: planner.WaitPeers, Have: []string{"sl-0"}, Need: 2}, session("open", true), true},
		"an operator's words":   {planner.Waiting{Kind: planner.WaitPaused, Rule: "paused by ann: " + words}, session("open", true), true},
		"a failure's words":     {planner.Waiting{Kind: planner.WaitRetry, Round: 3, Attempt: 1, Detail: words, Until: at}, session("open", true), true},
		"words behind a reason": {planner.Waiting{Kind: planner.WaitExpected, Need: 2, Detail: words}, session("open", true), true},
	} {
		st := &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{Name: "study", Sessions: []*swarmv1.Session{c.session}}}
		if c.waits.Kind != "" {
			st.Waiting = c.waits.String()
		}
		var out bytes.Buffer
		if err := printExplanation(&Session{JSON: true, Env: Env{Stdout: &out}}, st); err != nil {
			t.Fatal(err)
		}
		var explained explainJSON
		if err := json.Unmarshal(out.Bytes(), &explained); err != nil {
			t.Fatal(err)
		}
		if got := statusToJSON(st).Stuck; got != c.want || explained.Stuck != c.want {
			t.Errorf("%s: %q is stuck: %v, and explained so: %v, want %v", name, st.GetWaiting(), got, explained.Stuck, c.want)
		}
	}
}
