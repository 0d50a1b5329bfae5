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
		"a merge":               {planner.Waiting{Kind: planner.WaitMerging, Round: 3, Attempt: 1, For: []string{"sl-0"}}, session("open", true), false},
		"a merge anew":          {planner.Waiting{Kind: planner.WaitMerging, Round: 3, Attempt: 2, For: []string{"sl-0"}}, session("open", true), true},
		"a merge of the dead":   {planner.Waiting{Kind: planner.WaitMerging, Round: 3, Attempt: 1, For: []string{"sl-0"}, Lost: []string{"sl-2"}}, session("open", false), true},
		"a commit":              {planner.Waiting{Kind: planner.WaitCommand, Detail: "plan of round 216 (attempt 1), for 17 ms"}, session("open", true), false},
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

// TestTimeLeft: it is by the pace of the rounds that the leader remembers, however few of a long training, and there is none where that says nothing.
func TestTimeLeft(t *testing.T) {
	rounds := func(first, last uint64, seconds int64) []*swarmv1.CommittedRound {
		return []*swarmv1.CommittedRound{{Round: first, PlannedUnixMs: 1_000_000}, {Round: last, PlannedUnixMs: 1_000_000 + 1000*seconds}}
	}
	const training = "waiting for sl-0 (still training) since 12:00:00; lost: sl-1"
	for name, c := range map[string]struct {
		done, total uint32
		recent      []*swarmv1.CommittedRound
		change      func(st *swarmv1.GetContractStatusResponse)
		want        float64 // 0: not known
	}{
		"since round 1":              {10, 40, rounds(1, 101, 100), nil, 303},
		"a leader since ten seconds": {500, 1000, rounds(4991, 5000, 9), nil, 5000}, // 10 rounds an epoch, a second each
		"it came at round 901":       {10, 100, rounds(991, 1000, 9), func(st *swarmv1.GetContractStatusResponse) { st.Contract.Sessions[0].LastSeq = 100 }, 900},
		"no merge of its own":        {10, 40, rounds(1, 101, 100), func(st *swarmv1.GetContractStatusResponse) { st.Contract.Sessions[0].LastSeq = 0 }, 0},
		"a pause before the newest":  {10, 40, append([]*swarmv1.CommittedRound{{Round: 1, PlannedUnixMs: 1}}, newest(101)...), nil, 303},
		"a dead peer beside it":      {10, 40, rounds(1, 101, 100), func(st *swarmv1.GetContractStatusResponse) { st.Waiting = training }, 303},
		"it waits":                   {10, 40, rounds(1, 101, 100), func(st *swarmv1.GetContractStatusResponse) { st.Waiting = "waiting for 1 more peer" }, 0},
		"paused":                     {10, 40, rounds(1, 101, 100), func(st *swarmv1.GetContractStatusResponse) { st.Contract.Halt = &swarmv1.Halt{} }, 0},
		"its node is dead":           {10, 40, rounds(1, 101, 100), func(st *swarmv1.GetContractStatusResponse) { st.Contract.Sessions[0].Live = false }, 0},
		"one round":                  {10, 40, rounds(1, 101, 100)[:1], nil, 0},
		"no round":                   {10, 40, nil, nil, 0},
		"clocks that went back":      {10, 40, rounds(1, 101, -5), nil, 0},
		"one round twice":            {10, 40, rounds(7, 7, 5), nil, 0},
		"no epoch yet":               {0, 40, rounds(1, 101, 100), nil, 0},
		"of how many is not known":   {10, 0, rounds(1, 101, 100), nil, 0},
		"it is through":              {40, 40, rounds(1, 101, 100), nil, 0},
	} {
		st := &swarmv1.GetContractStatusResponse{Recent: c.recent, Contract: &swarmv1.ContractView{Sessions: []*swarmv1.Session{
			{Node: "sl-0", State: "open", Live: true, LastSeq: lastRound(c.recent), Progress: &swarmv1.Progress{EpochsDone: c.done, TotalEpochs: c.total}},
		}}}
		if c.change != nil {
			c.change(st)
		}
		switch got := statusToJSON(st).Sessions[0].LeftSeconds; {
		case got == nil && c.want != 0:
			t.Errorf("%s: nothing is said, want %v s", name, c.want)
		case got != nil && *got != c.want:
			t.Errorf("%s: %v s are left, want %v", name, *got, c.want)
		}
	}
}

// lastRound is the number of the newest round.
func lastRound(recent []*swarmv1.CommittedRound) uint64 {
	if len(recent) == 0 {
		return 0
	}
	return recent[len(recent)-1].GetRound()
}

// newest are as many rounds as the pace is of, a second each.
func newest(last uint64) (out []*swarmv1.CommittedRound) {
	for n := last - paceRounds + 1; n <= last; n++ {
		out = append(out, &swarmv1.CommittedRound{Round: n, PlannedUnixMs: int64(n) * 1000}) //nolint:gosec // small
	}
	return out
}
